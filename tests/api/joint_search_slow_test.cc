// The same as joint_search_test.cc, on twenty random steps of every schedule.
#include <doctest/doctest.h>

#include "api/joint_search.h"

TEST_CASE("what is searched for is as fast as the fastest of all choices, of twenty steps") {
  alpa::testing::check_joint_search(20, {});
}
