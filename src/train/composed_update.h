#pragma once
/// Shared by optimizers whose updates are composed of elementwise operators and reductions.
#include "src/ir/recorder.h"

namespace alpa {

/// Half-precision parameters are updated in f32.
DType update_dtype(DType dtype);

/// Throws Error unless 0 <= value < 1.
void require_fraction(const char* what, double value);

/// 1 - beta^step, as exact as its element type is: for small steps the difference would not be.
Value one_minus_power(double beta, Value step);

}  // namespace alpa
