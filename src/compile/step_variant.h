#pragma once
/// A step with a number of micro-batches, and layers to compute again.
#include <vector>

#include "alpa/train/training_step.h"
#include "method_options.h"

namespace alpa {

struct StepVariant {
  TrainingStep step;
  int num_micro_batches = 1;
  bool recomputes = false;
};

/// The method's options for a variant alone.
MethodOptions method_of(const StepVariant& variant, const MethodOptions& method);

}  // namespace alpa
