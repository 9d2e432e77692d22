#pragma once
/// Messages by MPI. Thread rule: one thread at a time calls the wire.
#include <memory>
#include <string>

#include "src/processes/wire.h"

namespace alpa::mpi {

/// Version and build of MPI, in several lines.
std::string library_version();

/// Ends all processes of the launch by PMIx, by which MPI was started: unlike MPI_Abort, that
/// makes mpirun print nothing around the program's words. Returns if there is no PMIx.
void end_launch(int status) noexcept;

/// Initialises MPI, unless the program has, and waits for the other processes. Throws Error.
std::unique_ptr<processes::Wire> make_wire();

}  // namespace alpa::mpi
