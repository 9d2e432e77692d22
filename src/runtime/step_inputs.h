#pragma once
/// What users give a step.
#include <map>
#include <string>

#include "alpa/tensor/array.h"
#include "src/runtime/devices.h"

namespace alpa::runtime {

/// Fills `inputs` with arrays and numbers by input name; numbers may be arrays of rank 0, too.
/// Throws Error on an unknown or missing input, a wrong type or shape.
void take_inputs(const Graph& graph, const BatchData& arrays,
                 const std::map<std::string, double>& numbers, StepInputs& inputs);

}  // namespace alpa::runtime
