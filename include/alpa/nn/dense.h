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
  bool bias = true;                      ///< add a learnt vector, zero at first
  KernelInitializer kernel = he_normal;  ///< also glorot_uniform, lecun_normal, or any fixed Initializer
};

/// y = x · kernel + bias for x [..., in]: parameters "denseN.kernel" [in, features] and "denseN.bias"
/// [features], of x's element type.
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
            "nn::Dense({}): the input is {}; it needs a batch dimension and a feature dimension", features_,
            to_string(x.type()));
    Builder& builder = *x.builder;
    const Scope scope(builder, id_.name(builder, "dense"));
    const Value y = matmul(x, kernel(builder, x.shape().back(), x.dtype()));
    return options_.bias ? y + bias(builder, x.dtype()) : y;
  }

  /// The kernel in `builder`'s graph, for use elsewhere too (tied weights): f32[inputs, features].
  Value kernel(Builder& builder, std::int64_t inputs, DType dtype = f32) const {
    return builder.parameter(id_.name(builder, "dense") + ".kernel", {dtype, {inputs, features_}},
                             options_.kernel(inputs, features_));
  }

 private:
  Value bias(Builder& builder, DType dtype) const {
    return builder.parameter(id_.name(builder, "dense") + ".bias", {dtype, {features_}},
                             Initializer::zeros());
  }

  LayerId id_;
  std::int64_t features_;
  DenseOptions options_;
};

}  // namespace alpa::nn
