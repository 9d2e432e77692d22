// With `reproducible` every plan trains to the same bits.
#include <doctest/doctest.h>

#include "equivalence/reproducible_case.h"
#include "support/nightly.h"

namespace reproducible_test {

using namespace alpa;
using namespace alpa::testing;

TEST_CASE("twelve plans train to the same bits") { check_twelve_plans(sampled(3, 50)); }

TEST_CASE("moments that are rounded at random have the same bits under twelve plans") {
  const std::vector<RunPlan> plans = twelve_plans();
  const ZooModel& gpt = reproducible_models().at(1);
  const auto bits_of = [&](const RunPlan& plan, optim::Moments moments) {
    return train_bits(gpt, plan, 3, true, optim::AdamW{.learning_rate = 1e-2, .moments = moments});
  };
  const Bits serial = bits_of(plans.front(), optim::Moments::bf16);
  CHECK(serial != bits_of(plans.front(), optim::Moments::full));
  for (const RunPlan& plan : plans) {
    CAPTURE(plan.name);
    CHECK(bits_of(plan, optim::Moments::bf16) == serial);
  }
}

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
