#pragma once
/// A step with a number of micro-batches, and layers to compute again.
#include <vector>

#include <vector>

#include "alpa/train/training_step.h"
#include "method_options.h"

namespace alpa {

struct StepVariant {
  TrainingStep step;
  int num_micro_batches = 1;
  bool recomputes = false;
};

/// Numbers of micro-batches to choose from: the divisors of the batch that are the first at or
/// above a power of two, ascending. `finer`: or one and a half of a power of two.
std::vector<int> micro_batch_choices(const TrainingStep& step, bool finer = false);

/// The method's options for a variant alone.
MethodOptions method_of(const StepVariant& variant, const MethodOptions& method);

}  // namespace alpa
