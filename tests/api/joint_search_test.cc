// The planner's own choices beside all others, on ten random steps of every schedule; at night on
// twenty.
#include <doctest/doctest.h>

#include "api/joint_search.h"
#include "support/nightly.h"

TEST_CASE("what is searched for is as fast as the fastest of all choices, under every schedule") {
  using alpa::testing::sampled;
  // Every schedule has another budget; the choices under these take seconds to plan one by one.
  const std::vector<int> slow = {6, 1002, 3000, 4008};
  alpa::testing::check_joint_search(sampled(10, 20), sampled(slow, {}));
}
