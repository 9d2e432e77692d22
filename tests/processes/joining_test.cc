// A process that fails while others still join the launch.
#include <doctest/doctest.h>

#include "support/processes.h"

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

}  // namespace joining_test
