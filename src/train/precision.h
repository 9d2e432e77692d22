#pragma once
/// Mixed precision: what layers see of parameters and batches; averages of parameters.
#include "alpa/train/training_step.h"
#include "src/ir/recorder.h"

namespace alpa {

/// How layers of a step in this precision get their parameters.
ParameterView view_of(Precision precision);

/// An input as layers of a step in this precision get it: tensors of f32 are converted.
Value in_precision(Value input, Precision precision);

/// A result of a step in this precision as its caller gets it: mixed precision gives f32.
Value in_user_precision(Value result, Precision precision);

/// Keeps the moving average of every parameter. Throws Error unless 0 < decay < 1, or if a
/// parameter is of half precision.
void average_parameters(Recorder& builder, double decay, Value step);

/// Reads trained parameters from their averages, if the options say so.
void read_averages(Recorder& builder, const EvaluationOptions& options);

}  // namespace alpa
