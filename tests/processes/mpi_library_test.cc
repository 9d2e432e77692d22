// Loading libalpa_mpi.so: every way it can fail ends in one line.
#include "src/processes/mpi_library.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <filesystem>

#include "src/base/own_library.h"
#include "support/error_text.h"

namespace mpi_library_test {

using namespace alpa::processes;
using alpa::testing::error_of;

namespace {

/// A library of tests/processes/fake.
std::string fake(const std::string& name) {
  return fmt::format("{}/libfake_mpi_{}.so", ALPA_FAKE_MPI_FOLDER, name);
}

}  // namespace

TEST_CASE("without the library, the reason names the file that is not there") {
  const MpiSupport support = load_mpi_library("/nowhere/libalpa_mpi.so");
  CHECK(support.reason == "there is no /nowhere/libalpa_mpi.so");
  CHECK(support.functions == nullptr);
}

TEST_CASE("a library that is nowhere: the reason names the places, and the variable for another") {
  const alpa::OwnLibraryKind kind{.name = "libalpa_of_nobody.so",
                                  .variable = "ALPA_NOBODY_LIBRARY",
                                  .entry = "nobody",
                                  .interface = 1,
                                  .absent = "this build has none"};
  CHECK(alpa::own_library_path(kind) == kind.name);
  const std::string reason = alpa::load_own_library(kind, kind.name).reason,
                    folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  CAPTURE(reason);
  CHECK(reason.starts_with("no libalpa_of_nobody.so in " + folder + ", /"));
  CHECK(reason.ends_with(
      ", or the system's folders: this build has none, or the program was copied without it; "
      "ALPA_NOBODY_LIBRARY may name it"));
  CHECK(reason.find("..") == std::string::npos);
}

TEST_CASE("a file that is not an MPI library of alpa is refused") {
  const std::string path = __FILE__;
  CHECK(load_mpi_library(path).reason == path + " does not load: " + path + ": invalid ELF header");
  CHECK(load_mpi_library("libz.so.1").reason ==
        "libz.so.1 is not alpa's: it has no alpa_mpi_functions");
}

TEST_CASE("an MPI library of another interface is refused") {
  const MpiSupport support = load_mpi_library(fake("newer"));
  CHECK(support.reason == fake("newer") + fmt::format(" has interface {}, this program needs {}: "
                                                      "install both from one build",
                                                      kMpiInterface + 1, kMpiInterface));
  CHECK(support.functions == nullptr);
}

TEST_CASE("an MPI library that does not know its version is refused in one line") {
  const MpiSupport support = load_mpi_library(fake("nameless"));
  CHECK(support.reason == fake("nameless") + ": MPI_Get_library_version: it is tired");
  CHECK(support.functions == nullptr);
}

TEST_CASE("an MPI library says which MPI it is") {
  const MpiSupport support = load_mpi_library(fake("stuck"));
  CHECK(support.reason == "");
  CHECK(support.functions != nullptr);
  CHECK(support.path == fake("stuck"));
  CHECK(support.version == "Pigeon MPI 1.0");
}

TEST_CASE("a launch without MPI, or whose MPI does not start, is an error that says so") {
  CHECK(error_of([] {
          mpi_wire({"mpirun", 1, 4}, load_mpi_library("/nowhere/x.so"));
        }) ==
        "mpirun started 4 processes, but there is no /nowhere/x.so; install libopenmpi-dev and "
        "build again, or set ALPA_LAUNCHER=none for separate runs");
  CHECK(error_of([] {
          mpi_wire({"PMIx", 1, 0}, load_mpi_library(fake("stuck")));
        }) ==
        "PMIx started several processes, but MPI does not start: MPI_Init_thread: no network");
}

TEST_CASE("the MPI library is found exactly where it was built") {
  const MpiSupport& support = mpi_support();
  CHECK((support.functions != nullptr) == ALPA_HAS_MPI);
  CHECK((support.reason == "") == ALPA_HAS_MPI);
  CHECK(support.version.find('\n') == std::string::npos);
}

}  // namespace mpi_library_test
