// src/processes/mpi_library.cc — finding and loading libalpa_mpi.so
#include "src/processes/mpi_library.h"

#include "alpa/base/error.h"
#include "src/base/own_library.h"

namespace alpa::processes {
namespace {

constexpr OwnLibraryKind kMpiLibrary = {.name = "libalpa_mpi.so",
                                        .variable = "ALPA_MPI_LIBRARY",
                                        .entry = kMpiEntry,
                                        .interface = kMpiInterface,
                                        .absent = "this build has no MPI"};

std::string started_by(const Launcher& launcher) {
  if (launcher.size == 0) return fmt::format("{} started several processes", launcher.name);
  return fmt::format("{} started {} processes", launcher.name, launcher.size);
}

}  // namespace

MpiSupport load_mpi_library(const std::string& path) {
  const OwnLibrary library = load_own_library(kMpiLibrary, path);
  MpiSupport support;
  support.reason = library.reason;
  if (library.table == nullptr) return support;
  const auto functions = static_cast<const MpiFunctions*>(library.table);
  MpiMessage version{}, why{};
  if (functions->version(&version, &why) != 0) {
    support.reason = one_line(fmt::format("{}: {}", path, why.text));
    return support;
  }
  support.functions = functions;
  support.path = path;
  support.version = version.text;
  return support;
}

const MpiSupport& mpi_support() {
  // Never destroyed: a program may join its launch as it ends.
  static const MpiSupport& support =
      *new MpiSupport(load_mpi_library(own_library_path(kMpiLibrary)));
  return support;
}

std::unique_ptr<Wire> mpi_wire(const Launcher& launcher, const MpiSupport& support) {
  require(support.functions != nullptr,
          "{}, but {}; install libopenmpi-dev and build again, or set ALPA_LAUNCHER=none for "
          "separate runs",
          started_by(launcher), support.reason);
  MpiMessage why{};
  std::unique_ptr<Wire> wire(support.functions->make_wire(&why));
  require(wire != nullptr, "{}, but MPI does not start: {}", started_by(launcher), why.text);
  require(launcher.size == 0 ? wire->size() > 1 || launcher.rank == 0
                             : wire->size() == launcher.size && wire->rank() == launcher.rank,
          "{}, this is number {}, but MPI says that it is number {} of {}: {} was built with {}, "
          "which does not know this launcher; use `srun --mpi=pmix` or the "
          "mpirun of that MPI",
          started_by(launcher), launcher.rank, wire->rank(), wire->size(), support.path,
          support.version);
  return wire;
}

}  // namespace alpa::processes
