// The planner's own choices beside all others, on ten random steps of every schedule.
#include <doctest/doctest.h>

#include "api/joint_search.h"

TEST_CASE("what is searched for is as fast as the fastest of all choices, under every schedule") {
  // Every schedule has another budget; the choices under these take seconds to plan one by one.
  alpa::testing::check_joint_search(10, {6, 1002, 3000, 4008});
}
