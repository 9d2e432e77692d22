// How the equivalence tests compare: a NaN or an infinity never passes for a small difference.
#include "support/difference.h"

#include <doctest/doctest.h>

#include "equivalence/mlp_case.h"
#include "support/steps.h"

namespace difference_test {

using namespace alpa::testing;

namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("the distance of two numbers is infinite where only one is finite or a number") {
  CHECK(distance(1.5, -0.5) == 2);
  CHECK(distance(kInfinity, kInfinity) == 0);
  CHECK(distance(kNan, kNan) == 0);
  CHECK(distance(-kInfinity, kInfinity) == kInfinity);
  for (double special : {kNan, kInfinity, -kInfinity})
    for (double number : {0.0, -3.0, 1e308}) {
      CHECK(distance(special, number) == kInfinity);
      CHECK(distance(number, special) == kInfinity);
    }
}

TEST_CASE("the difference of tensors is infinite wherever one has a number that is not finite") {
  CHECK(largest_difference({1, -3}, {1, -4}, 0) == 0.25);
  CHECK(largest_difference({1, -3}, {1, -4}, 10) == 0.1);
  CHECK(largest_difference({0, 0}, {0, 0}, 0) == 0);
  CHECK(largest_difference({1}, {1, 2}, 0) == kInfinity);
  for (double special : {kNan, kInfinity, -kInfinity}) {
    CHECK(largest_difference({1, special}, {1, 2}, 0) == kInfinity);
    CHECK(largest_difference({1, 2}, {1, special}, 0) == kInfinity);
    CHECK(largest_difference({special, 1}, {special, 1}, 0) == kInfinity);
  }
}

TEST_CASE("so is that of runs") {
  for (double special : {kNan, kInfinity, -kInfinity}) {
    const Contents good = {{"loss", {1, 2}}, {"w", {3, 4}}},
                   bad = {{"loss", {1, 2}}, {"w", {3, special}}};
    CHECK(deviation(good, good) == 0);
    CHECK(deviation(good, bad) == kInfinity);
    CHECK(deviation(bad, good) == kInfinity);
    const alpa::testing::StepOutcome a{{1, 2}, {{"w", {3, 4}}}}, b{{1, 2}, {{"w", {3, special}}}};
    CHECK(largest_difference(a, a) == 0);
    CHECK(largest_difference(a, b) == kInfinity);
    CHECK(largest_difference(b, a) == kInfinity);
  }
}

}  // namespace difference_test
