#pragma once
/// Combinators of layers: in sequence, residual, frozen, rematerialised.
#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"

namespace alpa::nn {

/// A layer of any kind: a callable from tensor to tensor, such as a lambda.
using Layer = std::function<Value(Value)>;

/// A layer whose parameters, including those of inner layers, are frozen:
/// training does not change them.
class Frozen {
 public:
  explicit Frozen(Layer inner) : inner_(std::move(inner)) {}

  Value operator()(Value x) const {
    const FreezingScope here(*x.builder, true);
    return inner_(x);
  }

 private:
  Layer inner_;
};

/// What `remat` returns: `inner` as a rematerialised layer.
template <class Inner>
class Rematerialised {
 public:
  explicit Rematerialised(Inner inner) : inner_(std::move(inner)) {}

  template <class... More>
  auto operator()(const Value& x, const More&... more) const {
    const RematScope here(*x.builder);
    return inner_(x, more...);
  }
  /// The same for a callable that takes several tensors as one argument.
  template <class... More>
  auto operator()(const Values& xs, const More&... more) const {
    require(!xs.empty(), "nn::remat: the layer is called without a tensor; give at least one");
    const RematScope here(*xs.front().builder);
    return inner_(xs, more...);
  }

 private:
  Inner inner_;
};

/// `layer` with rematerialisation (activation checkpointing): of what it computes, the backward
/// pass keeps only what the layer reads from outside, parameters included, and computes the rest
/// again just before it needs it. Numbers are the same; the step takes less memory and more time.
/// `layer` is any callable whose first argument is a tensor (or `Values`), with any result:
/// `auto [y, loss] = nn::remat(experts)(x)`. It may be nested. `StepOptions::remat` turns the marks
/// off, or lets the planner choose among them.
template <class Inner>
Rematerialised<Inner> remat(Inner layer) {
  return Rematerialised<Inner>(std::move(layer));
}

/// Applies its layers one after another. Copies share the parameters of their layers.
class Sequential {
 public:
  Sequential() = default;
  Sequential(std::initializer_list<Layer> layers) : layers_(layers) {}

  /// Appends a layer; returns itself.
  Sequential& add(Layer layer) {
    layers_.push_back(std::move(layer));
    return *this;
  }

  Value operator()(Value x) const {
    for (const Layer& layer : layers_) x = layer(x);
    return x;
  }

  /// These layers with all their parameters frozen: `nn::Sequential{encoder.frozen(),
  /// nn::Dense(10)}`.
  Frozen frozen() const { return Frozen(*this); }

 private:
  std::vector<Layer> layers_;
};

/// x + inner(x); the inner layer keeps the shape.
class Residual {
 public:
  explicit Residual(Layer inner) : inner_(std::move(inner)) {}

  /// Throws Error if the inner layer changes the shape.
  Value operator()(Value x) const {
    const Value y = inner_(x);
    require(
        y.type() == x.type(),
        "nn::Residual: the inner layer turns {} into {}; it must keep the type, to be added to its input",
        to_string(x.type()), to_string(y.type()));
    return x + y;
  }

 private:
  Layer inner_;
};

}  // namespace alpa::nn
