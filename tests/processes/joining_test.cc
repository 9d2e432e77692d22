// A process that fails while others still join the launch.
#include <doctest/doctest.h>

#include "support/processes.h"
#include "support/program.h"

namespace joining_test {

using namespace alpa;
using namespace alpa::testing;

TEST_CASE("a process that fails as soon as it has joined ends those that still join") {
  for (int round = 0; round < 100; ++round) {
    const std::vector<std::string> errors = run_processes(3, [](int rank) {
      if (rank == 2) fail("no disk");
      processes::world()->broadcast("x", 2);
    });
    for (const std::string& error : errors) CHECK(error == "no disk");
  }
}

TEST_CASE("a process whose launch fails while it joins ends the launch before it ends itself") {
  for (const int rank : {0, 1}) {
    const ProgramOutput output = run_shell(
        fmt::format("OMPI_COMM_WORLD_RANK={} OMPI_COMM_WORLD_SIZE=2 "
                    "ALPA_MPI_LIBRARY=" ALPA_FAKE_MPI_FOLDER
                    "/libfake_mpi_broken.so " ALPA_PROCESS_PROGRAMS "/processes_diverging",
                    rank));
    CAPTURE(output.text);
    CHECK(output.status == 75);
    CHECK(output.text.find("messages between processes failed: cut\n") != std::string::npos);
    CHECK(output.text.ends_with("the launch ends with 75\n"));
  }
}

}  // namespace joining_test
