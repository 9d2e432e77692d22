// A stopped process that holds up another one inside MPI.
#include <doctest/doctest.h>

#include "support/mpirun.h"

namespace held_up_test {

using namespace alpa::testing;

TEST_CASE("of a stopped process and one that it holds up, the stopped one is named") {
  const std::string why = no_mpirun();
  if (!why.empty()) {
    MESSAGE("skipped: " << why);
    return;
  }
  const ProgramOutput output = run_under_mpirun(4, ALPA_PROCESS_PROGRAMS "/processes_held_up", {});
  CAPTURE(output.text);
  CHECK(output.status == 75);
  const std::size_t lost = output.text.find("lost rank ");
  REQUIRE(lost != std::string::npos);
  CHECK(output.text.compare(lost, 16, "lost rank 1 of 4") == 0);
  CHECK(output.text.find("has been stopped, by a signal or a debugger, and holds up rank 2, "
                         "silent for 1.") != std::string::npos);
  CHECK(output.text.find("lost rank", lost + 1) == std::string::npos);
}

}  // namespace held_up_test
