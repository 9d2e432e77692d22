#pragma once
/// Layers: callables `Value(Value)`, with parameters or without.
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "alpa/base/error.h"
#include "alpa/nn/initializer.h"
#include "alpa/nn/layer.h"
#include "alpa/ops/ops.h"
#pragma GCC visibility push(default)

namespace alpa::nn {

/// Options of `Dense`.
struct DenseOptions {
  bool bias = true;  ///< add a learnt vector, initially zero
  /// or glorot_uniform, lecun_normal, or a fixed Initializer
  KernelInitializer kernel = he_normal;
  std::string name = {};  ///< the layer's own; default: its position or kind (`Scope`)
};

/// y, what a layer makes of x [..., in], with the layer's adapter if it is asked for one. For
/// layers of your own whose result is a product with a kernel [in, features].
inline Value adapted(const Scope& in, Value x, Value y) {
  const std::optional<Lora> lora = in.lora();
  if (!lora) return y;
  const std::int64_t inputs = x.dim(-1), rank = lora->rank;
  const double bound = 1 / std::sqrt(static_cast<double>(inputs));  // as PEFT's
  const Value a = in.parameter("lora_a", {inputs, rank}, Initializer::uniform(-bound, bound)),
              b = in.parameter("lora_b", {rank, y.dim(-1)}, zeros);
  const bool drops = lora->dropout > 0 && x.builder->training();
  const Value low = matmul(drops ? dropout(x, lora->dropout) : x, a);
  return y + matmul(low, b) * (lora->alpha / static_cast<double>(rank));
}

/// y = x · kernel + bias for x [..., in]: parameters "kernel" [in, features] and
/// "bias" [features], of x's element type. `StepOptions::lora` may give it an adapter.
class Dense {
 public:
  /// Throws Error if features < 1.
  explicit Dense(std::int64_t features, DenseOptions options = {})
      : id_(options.name), features_(features), options_(std::move(options)) {
    require(features >= 1, "nn::Dense: {} features; give at least 1", features);
  }

  /// Throws Error unless x has a feature dimension and at least one before it.
  Value operator()(Value x) const {
    require(x.rank() >= 2,
            "nn::Dense({}): the input is {}; it needs a batch dimension and a feature dimension",
            features_, to_string(x.type()));
    const Scope in(x, id_, "dense");
    const Value y = in.product(x, features_, options_.kernel(x.dim(-1), features_));
    return adapted(in, x, options_.bias ? y + in.parameter("bias", {features_}, zeros) : y);
  }

  /// The kernel in `builder`'s graph, for tied weights: [inputs, features], of the step's element
  /// type unless it is given.
  Value kernel(Builder& builder, std::int64_t inputs, std::optional<DType> dtype = {}) const {
    return kernel(Scope(builder, id_, "dense", dtype), inputs);
  }

  const LayerId& id() const { return id_; }  ///< of the layer

 private:
  Value kernel(const Scope& in, std::int64_t inputs) const {
    return in.parameter("kernel", {inputs, features_}, options_.kernel(inputs, features_));
  }

  LayerId id_;
  std::int64_t features_;
  DenseOptions options_;
};

/// Options of `Embedding`.
struct EmbeddingOptions {
  Initializer table = Initializer::normal(0, 0.02);  ///< GPT-2's (Radford et al. 2019)
  std::optional<DType> dtype = {};  ///< default: the step's (`StepOptions::precision`), f32
  std::string name = {};            ///< the layer's own; default: its position or kind (`Scope`)
};

/// ids i32 [...] → [..., width]: rows of the parameter "table" [rows, width].
class Embedding {
 public:
  /// Throws Error if rows or width is below 1.
  Embedding(std::int64_t rows, std::int64_t width, EmbeddingOptions options = {})
      : id_(options.name), rows_(rows), width_(width), options_(std::move(options)) {
    require(rows >= 1 && width >= 1, "nn::Embedding: {} rows of width {}; give at least 1 of each",
            rows, width);
  }

  Value operator()(Value ids) const {
    const Scope in(ids, id_, "embedding");
    return embedding(table(in), ids);
  }

  /// The table in `builder`'s graph, for tied weights: [rows, width].
  Value table(Builder& builder) const { return table(Scope(builder, id_, "embedding")); }

  const LayerId& id() const { return id_; }  ///< of the layer

 private:
  Value table(const Scope& in) const {
    return in.parameter("table", {rows_, width_}, options_.table, options_.dtype);
  }

  LayerId id_;
  std::int64_t rows_, width_;
  EmbeddingOptions options_;
};

/// Options of the normalisations.
struct NormOptions {
  std::optional<double> epsilon = {};  ///< default: the layer's
  bool scale_from_one = false;         ///< RMSNorm: "scale" (zeros) is what is added to 1 (Gemma)
  std::string name = {};               ///< the layer's own; default: its position or kind (`Scope`)
};

/// (x - mean) / sqrt(variance + epsilon) · scale + bias over the last dimension of x [..., C]
/// (Ba et al. 2016): parameters "scale" (ones) and "bias" (zeros), [C], of x's element type.
class LayerNorm {
 public:
  /// Throws Error unless epsilon (1e-5) > 0.
  explicit LayerNorm(NormOptions options = {})
      : id_(std::move(options.name)), epsilon_(options.epsilon.value_or(1e-5)) {
    require(epsilon_ > 0, "nn::LayerNorm: epsilon must be above 0, not {}", epsilon_);
  }
  explicit LayerNorm(double epsilon) : LayerNorm(NormOptions{.epsilon = epsilon}) {}

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

  const LayerId& id() const { return id_; }  ///< of the layer

 private:
  LayerId id_;
  double epsilon_;
};

/// Sets each element to 0 with probability `rate` and scales the others by 1 / (1 - rate)
/// (Srivastava et al. 2014); the identity in an `evaluation_step`. Every mask is a function of
/// (seed, stream, step, micro-batch, index): the same under every plan.
class Dropout {
 public:
  /// Throws Error unless 0 <= rate < 1.
  explicit Dropout(double rate) : rate_(rate) {
    require(rate >= 0 && rate < 1, "nn::Dropout: rate {} is not in [0, 1)", rate);
  }

  Value operator()(Value x) const { return x.builder->training() ? dropout(x, rate_) : x; }

 private:
  double rate_;
};

/// Activations as layers, for use in a Sequential.
struct ReLU {
  Value operator()(Value x) const { return relu(x); }
};

/// Tanh approximation; `{.exact = true}` is `exact_gelu`.
struct GELU {
  bool exact = false;  ///< by the error function
  Value operator()(Value x) const { return exact ? exact_gelu(x) : gelu(x); }
};

/// The hyperbolic tangent.
struct Tanh {
  Value operator()(Value x) const { return tanh(x); }
};

/// 1 / (1 + exp(-x)).
struct Sigmoid {
  Value operator()(Value x) const { return sigmoid(x); }
};

}  // namespace alpa::nn
#pragma GCC visibility pop
