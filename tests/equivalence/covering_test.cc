// The covering set on CPU devices.
#include <doctest/doctest.h>

#include <set>

#include "equivalence/covering.h"

namespace covering_test {

using namespace alpa;
using namespace alpa::testing;

TEST_CASE("the covering set holds every pair of values of any two factors") {
  const Choice sizes = {static_cast<int>(kMeshes.size()), 4, 2, 2, 5, 4, 2};
  const std::vector<Choice> choices = covering_choices();
  for (int a = 0; a < 7; ++a)
    for (int b = a + 1; b < 7; ++b) {
      std::set<std::pair<int, int>> pairs;
      for (const Choice& choice : choices) pairs.insert({choice[a], choice[b]});
      CAPTURE(a);
      CAPTURE(b);
      CHECK(static_cast<int>(pairs.size()) == sizes[a] * sizes[b]);
    }
}

TEST_CASE("one to four devices compute what one device computes") {
  for (int mesh = 0; mesh < 5; ++mesh) check_mesh(mesh, "cpu");
}

TEST_CASE("five to seven devices compute what one device computes") {
  for (int mesh = 5; mesh < 10; ++mesh) check_mesh(mesh, "cpu");
}

TEST_CASE("eight devices compute what one device computes") {
  for (int mesh = 10; mesh < 13; ++mesh) check_mesh(mesh, "cpu");
}

TEST_CASE("a deviation is seen") {
  const MlpCase model{Trait::bias, 2, true, f64};
  const Contents reference = run_serial(model);
  Contents other = reference;
  other["2.kernel"][3] *= 1 + 1e-6;
  CHECK(deviation(reference, reference) == 0);
  CHECK(deviation(other, reference) > tolerance(f64));
}

}  // namespace covering_test
