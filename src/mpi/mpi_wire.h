#pragma once
/// Messages by MPI. Thread rule: one thread at a time calls the wire.
#include <memory>
#include <string>

#include "src/processes/wire.h"

namespace alpa::mpi {

/// What MPI says of itself, in several lines.
std::string library_version();

/// Initialises MPI, unless the program has, and waits for the other processes. Throws Error.
std::unique_ptr<processes::Wire> make_wire();

}  // namespace alpa::mpi
