#pragma once
/// The fully connected layer.
#include <cstdint>
#include <utility>

#include "alpa/base/error.h"
#include "alpa/nn/initializer.h"
#include "alpa/nn/layer.h"
#include "alpa/ops/ops.h"

namespace alpa::nn {

struct DenseOptions {
  bool bias = true;  ///< add a learnt vector, initially zero
  /// or glorot_uniform, lecun_normal, or a fixed Initializer
  KernelInitializer kernel = he_normal;
};

/// y = x · kernel + bias for x [..., in]: parameters "denseN.kernel" [in, features] and
/// "denseN.bias" [features], of x's element type.
class Dense {
 public:
  /// Throws Error if features < 1.
  explicit Dense(std::int64_t features, DenseOptions options = {})
      : features_(features), options_(std::move(options)) {
    require(features >= 1, "nn::Dense: {} features; give at least 1", features);
  }

  /// Throws Error unless x has a feature dimension and at least one before it.
  Value operator()(Value x) const {
    require(x.rank() >= 2,
            "nn::Dense({}): the input is {}; it needs a batch dimension and a feature dimension",
            features_, to_string(x.type()));
    const Scope in(x, id_, "dense");
    const Value y = matmul(x, kernel(in, x.dim(-1)));
    return options_.bias ? y + in.parameter("bias", {features_}, zeros) : y;
  }

  /// The kernel in `builder`'s graph, for tied weights: f32[inputs, features].
  Value kernel(Builder& builder, std::int64_t inputs, DType dtype = f32) const {
    return kernel(Scope(builder, id_, "dense", dtype), inputs);
  }

  /// This layer with frozen parameters: training does not change them.
  Dense frozen() const {
    Dense layer = *this;
    layer.id_.freeze();
    return layer;
  }

 private:
  Value kernel(const Scope& in, std::int64_t inputs) const {
    return in.parameter("kernel", {inputs, features_}, options_.kernel(inputs, features_));
  }

  LayerId id_;
  std::int64_t features_;
  DenseOptions options_;
};

}  // namespace alpa::nn
