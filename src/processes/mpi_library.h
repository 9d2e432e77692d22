#pragma once
/// Loading libalpa_mpi.so when a launcher has started several processes.
#include <memory>
#include <string>

#include "src/processes/launcher.h"
#include "src/processes/mpi_functions.h"
#include "src/processes/wire.h"

namespace alpa::processes {

/// MPI library of this process, or the reason why there is none.
struct MpiSupport {
  const MpiFunctions* functions = nullptr;  ///< null without the library; never unloaded
  std::string path;                         ///< of the library that was loaded
  std::string version;                      ///< of MPI: "Open MPI v4.1.4, package: …"
  std::string reason;                       ///< why there is none, in one line; "" if there is one
};

/// Loads the library that the environment variable ALPA_MPI_LIBRARY names, or libalpa_mpi.so where
/// libalpa_cuda.so is looked for, too. Once per process, by whichever thread comes first. Never
/// throws on what it finds.
const MpiSupport& mpi_support();

/// The same for the library at `path`, every time.
MpiSupport load_mpi_library(const std::string& path);

/// Starts MPI by `support`, once per process, and waits for all processes of the launch. The thread
/// that calls this makes all calls of the wire. Throws Error if there is no MPI, if it does not
/// start, or if it counts other processes than `launcher`, because it is another MPI than that of
/// the launcher.
std::unique_ptr<Wire> mpi_wire(const Launcher& launcher, const MpiSupport& support);

}  // namespace alpa::processes
