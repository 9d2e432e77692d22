// Variants of a step: numbers of micro-batches, and their options
#include "step_variant.h"

#include <algorithm>
#include <numeric>

namespace alpa {

std::vector<int> micro_batch_choices(const TrainingStep& step, bool finer) {
  std::int64_t rows = 0;
  for (const BatchInput& input : step.inputs)
    if (input.batched) rows = std::gcd(rows, input.type.shape.at(0));
  std::vector<int> choices;
  const auto add = [&](std::int64_t divisor) {
    while (rows % divisor != 0) ++divisor;
    if (choices.empty() || divisor > choices.back()) choices.push_back(static_cast<int>(divisor));
  };
  const std::int64_t most = std::max<std::int64_t>(rows, 1);
  for (std::int64_t power = 1; power <= most; power *= 2) {
    add(power);
    if (finer && power % 2 == 0 && power + power / 2 <= most) add(power + power / 2);
  }
  return choices;
}

MethodOptions method_of(const StepVariant& variant, const MethodOptions& method) {
  MethodOptions own = method;
  own.options.num_micro_batches = variant.num_micro_batches;
  own.options.progress = {};  // of all variants together
  return own;
}

}  // namespace alpa
