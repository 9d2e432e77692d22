#pragma once
/// Sums over micro-batches: made once per micro-batch, read once per step.
#include <string>

#include "src/ir/recorder.h"

namespace alpa {

/// Once per micro-batch: the running sum of `value` in an accumulator `name`; `value` itself if
/// there is one micro-batch only. Sums of half-precision values are held in f32.
Value micro_batch_sum(const std::string& name, Value value);

/// The mean over micro-batches from such a sum, in the builder's region.
Value mean_of_sum(Value sum);

/// Gradients of `share`, the loss divided by the number of micro-batches, summed over
/// micro-batches; empty for parameters that it does not depend on. The accumulator of
/// "w" is called "w.<name>".
Values gradient_sums(Value share, const Values& parameters, const std::string& name);

}  // namespace alpa
