// The planner's own choices beside all others, on six random steps of every schedule, one of each
// kind; at night on twenty.
#include <doctest/doctest.h>

#include "api/joint_search.h"
#include "support/nightly.h"

TEST_CASE("what is searched for is as fast as the fastest of all choices, under every schedule") {
  using alpa::testing::sampled;
  // Every schedule has another budget; the choices under these take seconds to plan one by one.
  const std::vector<int> slow = {1002, 3000};
  alpa::testing::check_joint_search(sampled(6, 20), sampled(slow, {}));
}
