#pragma once
/// Layer normalisation.
#include "alpa/base/error.h"
#include "alpa/nn/layer.h"
#include "alpa/ops/ops.h"

namespace alpa::nn {

/// (x - mean) / sqrt(variance + epsilon) · scale + bias over the last dimension of x [..., C]
/// (Ba et al. 2016): parameters "layer_normN.scale" (ones) and "layer_normN.bias" (zeros),
/// [C], of x's element type.
class LayerNorm {
 public:
  /// Throws Error unless epsilon > 0.
  explicit LayerNorm(double epsilon = 1e-5) : epsilon_(epsilon) {
    require(epsilon > 0, "nn::LayerNorm: epsilon must be above 0, not {}", epsilon);
  }

  /// Throws Error if x is a scalar.
  Value operator()(Value x) const {
    require(x.rank() >= 1, "nn::LayerNorm: the input is {}; it needs a feature dimension",
            to_string(x.type()));
    const Scope in(x, id_, "layer_norm");
    // In statements of their own: C++ may evaluate arguments in any order.
    const Value scale = in.parameter("scale", {x.dim(-1)}, ones);
    const Value bias = in.parameter("bias", {x.dim(-1)}, zeros);
    return layer_norm(x, scale, bias, epsilon_);
  }

  /// This layer with frozen parameters: training does not change them.
  LayerNorm frozen() const {
    LayerNorm layer = *this;
    layer.id_.freeze();
    return layer;
  }

 private:
  LayerId id_;
  double epsilon_;
};

}  // namespace alpa::nn
