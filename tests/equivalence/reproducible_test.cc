// With `reproducible` every plan trains to the same bits.
#include <doctest/doctest.h>

#include "equivalence/reproducible_case.h"
#include "support/nightly.h"

namespace reproducible_test {

using namespace alpa;
using namespace alpa::testing;

TEST_CASE("twelve plans train to the same bits") { check_twelve_plans(sampled(3, 50)); }

TEST_CASE("without `reproducible` most plans train to other bits") {
  const std::vector<RunPlan> plans = twelve_plans();
  for (const ZooModel& model : reproducible_models()) {
    CAPTURE(model.name);
    const Bits serial = train_bits(model, plans.front(), 3, false);
    int others = 0;
    for (const RunPlan& plan : plans) others += train_bits(model, plan, 3, false) != serial;
    CHECK(others >= 6);
  }
}

}  // namespace reproducible_test
