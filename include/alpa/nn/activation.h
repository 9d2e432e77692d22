#pragma once
/// Activations as layers, for use in a Sequential.
#include "alpa/ops/ops.h"

namespace alpa::nn {

struct ReLU {
  Value operator()(Value x) const { return relu(x); }
};

/// Tanh approximation.
struct GELU {
  Value operator()(Value x) const { return gelu(x); }
};

struct Tanh {
  Value operator()(Value x) const { return tanh(x); }
};

struct Sigmoid {
  Value operator()(Value x) const { return sigmoid(x); }
};

}  // namespace alpa::nn
