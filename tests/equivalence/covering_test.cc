// The covering set on CPU devices; at night the full product of its factors.
#include <doctest/doctest.h>

#include <set>

#include "equivalence/covering.h"
#include "support/nightly.h"

namespace covering_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

void check_all_spreads(const MlpCase& model) {
  const Contents reference = run_serial(model);
  for (const std::vector<int>& mesh : kMeshes)
    for (const char* method : kMethods)
      for (int micro_batches : {1, 4}) {
        const Spread spread{method, mesh, micro_batches};
        INFO(to_string(model) << "; " << to_string(spread));
        CHECK(deviation(run_spread(model, spread), reference) <= tolerance(model.dtype));
      }
}

}  // namespace

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

TEST_CASE("every plan computes what one device computes" * doctest::skip(!is_nightly())) {
  for (int layers : {2, 3, 4, 6, 9, 12})
    for (Trait trait : {Trait::plain, Trait::bias, Trait::tied, Trait::residual})
      for (bool adam : {false, true})
        for (DType dtype : {f32, f64}) check_all_spreads({trait, layers, adam, dtype});
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
