/// Random limits on large random problems; minutes.
#include <doctest/doctest.h>

#include <cmath>

#include "deadline_check.h"
#include "large_problem.h"

namespace alpa::ilp::deadline_slow_test {
namespace {

TEST_CASE(
    "with limits of 0.01 to 5 seconds no large random problem is answered more than a second "
    "late") {
  testing::Draw draw{std::mt19937_64(20'26)};
  for (int number = 0; number < 20 * testing::kKinds; ++number) {
    const double limit = 0.01 * std::pow(500, draw.below(1001) / 1000.0);
    const testing::Large large = testing::large_problem(9000 + number, number, draw.between(1, 60));
    CAPTURE(number);
    CAPTURE(large.kind);
    CAPTURE(limit);
    CHECK(testing::seconds_beyond(large.problem, limit) < 1);
  }
}

}  // namespace
}  // namespace alpa::ilp::deadline_slow_test
