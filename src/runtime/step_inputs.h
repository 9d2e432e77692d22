#pragma once
/// Inputs that users give a step.
#include <cstdint>
#include <map>
#include <string>

#include "alpa/tensor/array.h"
#include "src/runtime/devices.h"

namespace alpa::runtime {

/// Fills `inputs` with arrays and numbers by input name; numbers may be arrays of rank 0, too.
/// Throws Error on an unknown or missing input, a wrong type or shape.
void take_inputs(const Graph& graph, const BatchData& arrays,
                 const std::map<std::string, double>& numbers, StepInputs& inputs);

/// "run 5 on x f32[8, 4], y f32[8, 1] with learning_rate 0.1, step 5".
std::string run_text(std::int64_t step, const BatchData& arrays,
                     const std::map<std::string, double>& numbers);

}  // namespace alpa::runtime
