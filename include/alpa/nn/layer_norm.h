#pragma once
/// Layer normalisation.
#include "alpa/base/error.h"
#include "alpa/nn/layer.h"
#include "alpa/ops/ops.h"

namespace alpa::nn {

/// (x - mean) / sqrt(variance + epsilon) · scale + bias over the last dimension of x [..., C] (Ba et al.
/// 2016): parameters "layer_normN.scale" (ones) and "layer_normN.bias" (zeros), [C], of x's element type.
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
    Builder& builder = *x.builder;
    const std::string& name = id_.name(builder, "layer_norm");
    const Scope scope(builder, name);
    const TensorType features{x.dtype(), {x.shape().back()}};
    return layer_norm(x, builder.parameter(name + ".scale", features, Initializer::ones()),
                      builder.parameter(name + ".bias", features, Initializer::zeros()), epsilon_);
  }

 private:
  LayerId id_;
  double epsilon_;
};

}  // namespace alpa::nn
