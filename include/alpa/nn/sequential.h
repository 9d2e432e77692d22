#pragma once
/// Combinators of layers: named, in sequence, residual, rematerialised.
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "alpa/base/error.h"
#include "alpa/nn/layer.h"
#include "alpa/ops/ops.h"
#pragma GCC visibility push(default)

namespace alpa::nn {

/// A layer of any kind: a callable from tensor to tensor, such as a lambda, with or without a name.
class Layer {
 public:
  Layer() = default;
  template <class Function>
  requires(std::is_invocable_r_v<Value, const Function&, Value> && !std::is_same_v<Function, Layer>)
      Layer(Function function)  // NOLINT: `nn::Sequential{nn::Dense(8), nn::ReLU()}`
      : id_(id_of(function)), call_(std::move(function)) {}
  /// `{"stem", function}`: the name of a layer without one of its own, and else a scope around it.
  template <class Function>
  requires std::is_invocable_r_v<Value, const Function&, Value> Layer(std::string name,
                                                                      Function function)
      : Layer(std::move(function)) {
    name_ = std::move(name);
  }

  Value operator()(Value x) const { return at(x, {}); }
  explicit operator bool() const { return static_cast<bool>(call_); }

  /// The layer at a position of its parent, which names it if nothing else does.
  Value at(Value x, std::string_view position) const {
    const std::string_view name = name_.empty() ? position : std::string_view(name_);
    if (name.empty() || (name_.empty() && id_ && !id_->name().empty())) return call_(x);
    if (id_ && id_->name().empty()) {
      suggest_name(x, *id_, name);
      return call_(x);
    }
    const Scope in(x, name);
    return call_(x);
  }

  /// The identity of what is called, unless this gives it a name.
  std::optional<LayerId> id() const { return name_.empty() ? id_ : std::nullopt; }

 private:
  std::string name_;
  std::optional<LayerId> id_;
  std::function<Value(Value)> call_;
};

/// What `remat` returns: `inner` as a rematerialised layer.
template <class Inner>
class Rematerialised {
 public:
  explicit Rematerialised(Inner inner) : inner_(std::move(inner)) {}

  template <class... More>
  auto operator()(const Value& x, const More&... more) const {
    const RematScope here(x);
    return inner_(x, more...);
  }
  /// The same for a callable that takes several tensors as one argument.
  template <class... More>
  auto operator()(const Values& xs, const More&... more) const {
    require(!xs.empty(), "nn::remat: the layer is called without a tensor; give at least one");
    const RematScope here(xs.front());
    return inner_(xs, more...);
  }
  std::optional<LayerId> id() const { return id_of(inner_); }  ///< of the layer

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

/// Options of `Sequential`.
struct SequentialOptions {
  std::string name = {};  ///< the layer's own; default: see `Sequential`
};

/// Applies its layers one after another. Copies share the parameters of their layers. A layer is
/// called by its own name, or else by its position: "0.kernel", "2.kernel". A position is also the
/// scope of a callable without a LayerId: "1.dense0.kernel". The first unnamed Sequential of a
/// scope adds no name to those of its layers; later ones add "sequential1" and so on.
class Sequential {
 public:
  Sequential() = default;
  Sequential(std::initializer_list<Layer> layers, SequentialOptions options = {})
      : id_(std::move(options.name)), layers_(layers) {}

  /// Appends a layer; returns itself.
  Sequential& add(Layer layer) {
    layers_.push_back(std::move(layer));
    return *this;
  }

  Value operator()(Value x) const {
    const Scope in(x, id_, "sequential");
    for (std::size_t i = 0; i < layers_.size(); ++i) x = layers_[i].at(x, std::to_string(i));
    return x;
  }
  const LayerId& id() const { return id_; }  ///< of the layer

 private:
  LayerId id_;
  std::vector<Layer> layers_;
};

/// x + inner(x); the inner layer keeps the shape.
class Residual {
 public:
  explicit Residual(Layer inner) : inner_(std::move(inner)) {}

  /// Throws Error if the inner layer changes the shape.
  Value operator()(Value x) const {
    const Value y = inner_(x);
    require(y.type() == x.type(),
            "nn::Residual: the inner layer turns {} into {}; it must keep the type, to be added to "
            "its input",
            to_string(x.type()), to_string(y.type()));
    return x + y;
  }
  std::optional<LayerId> id() const { return inner_.id(); }  ///< of the layer

 private:
  Layer inner_;
};

}  // namespace alpa::nn
#pragma GCC visibility pop
