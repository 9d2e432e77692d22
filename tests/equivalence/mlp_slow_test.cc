// The full product of the factors of covering_test.cc. Run it with `ctest
// --test-dir build/release -L slow`.
#include <doctest/doctest.h>

#include "equivalence/mlp_case.h"

namespace mlp_slow_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

const std::vector<std::vector<int>> kMeshes = {{1},    {2},    {3}, {4}, {2, 2}, {5},   {6},
                                               {2, 3}, {3, 2}, {7}, {8}, {2, 4}, {4, 2}};

void check_all_spreads(const MlpCase& model) {
  const Contents reference = run_serial(model);
  for (const std::vector<int>& mesh : kMeshes)
    for (const char* method : {"data", "zero2", "zero3", "shard"})
      for (int micro_batches : {1, 4}) {
        const Spread spread{method, mesh, micro_batches};
        INFO(to_string(model) << "; " << to_string(spread));
        CHECK(deviation(run_spread(model, spread), reference) <= tolerance(model.dtype));
      }
}

}  // namespace

TEST_CASE("every plan computes what one device computes") {
  for (int layers : {2, 3, 4, 6, 9, 12})
    for (Trait trait : {Trait::plain, Trait::bias, Trait::tied, Trait::residual})
      for (bool adam : {false, true})
        for (DType dtype : {f32, f64}) check_all_spreads({trait, layers, adam, dtype});
}

}  // namespace mlp_slow_test
