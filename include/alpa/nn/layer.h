#pragma once
/// Identity, names and scopes of layers. A layer is any callable `Value(Value)`. A layer with
/// parameters holds a `LayerId`; its copies use the same parameters (weight tying).
#include <atomic>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "alpa/ir/builder.h"
#pragma GCC visibility push(default)

namespace alpa::nn {

/// Identity of a layer with parameters: unique in the process, shared by copies.
class LayerId {
 public:
  LayerId() : number_(next().fetch_add(1, std::memory_order_relaxed)) {}
  /// With the layer's own name, "head" or "feed_forward.up", below the scope that it is used in.
  explicit LayerId(std::string name) : LayerId() { name_ = std::move(name); }

  std::uintptr_t number() const { return number_; }  ///< unique in the process
  const std::string& name() const { return name_; }  ///< its own; may be empty

 private:
  static std::atomic<std::uintptr_t>& next() {
    static std::atomic<std::uintptr_t> counter{1};
    return counter;
  }
  std::uintptr_t number_;
  std::string name_;
};

/// The identity of a layer whose class has a member `id`, or a function `id()`; else none.
template <class Layer>
std::optional<LayerId> id_of(const Layer& layer) {
  if constexpr (requires { std::optional<LayerId>(layer.id()); })
    return layer.id();
  else if constexpr (requires { std::optional<LayerId>(layer.id); })
    return layer.id;
  else
    return std::nullopt;
}

/// One use of a layer: makes its parameters, and names the nodes appended during its lifetime.
///
///     struct Gain {
///       nn::LayerId id;
///       Value operator()(Value x) const {
///         const nn::Scope in(x, id, "norm");
///         return x * in.parameter("gain", {x.dim(-1)}, ones);
///       }
///     };
///
/// Scopes nest: a layer's name is the path of the scopes around its first use and its own name,
/// "blocks.3.norm". Without a name of its own it gets its position in a `Sequential`, or else its
/// kind and a number, "norm0", counted among the unnamed layers of this kind in the same scope.
class Scope {
 public:
  /// A use on `x`. The parameters have its element type; if that is not floating, the step's.
  /// Throws Error, naming both, if another layer has the same path.
  Scope(Value x, const LayerId& id, std::string_view kind)
      : Scope(*x.builder, id, kind,
              is_floating(x.dtype()) ? std::optional(x.dtype()) : std::nullopt) {}
  /// A use without an operand, e.g. of parameters alone. Without `dtype` they have the step's type:
  /// f32, or half precision (`StepOptions::precision`).
  Scope(Builder& builder, const LayerId& id, std::string_view kind,
        std::optional<DType> dtype = {});
  /// A part of the model around calls of layers: `const nn::Scope in(x, "encoder");`. It has no
  /// parameters of its own. Throws Error unless the parts of `path` are letters, digits, '_' and
  /// '-', joined by '.'.
  Scope(Builder& builder, std::string_view path);
  /// An element of a list: `const nn::Scope in(x, "blocks", i);` is "blocks.3".
  Scope(Builder& builder, std::string_view list, std::integral auto position)
      : Scope(builder, std::string(list) + "." + std::to_string(position)) {}
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// The layer's parameter `name`, "norm0.gain" in the graph; every use returns the same one.
  /// Throws Error if it was made with another type, or in a scope without a LayerId.
  Value parameter(std::string_view name, const Shape& shape, Initializer init,
                  std::optional<DType> dtype = {}) const;

  /// The layer's state `name`, "norm0.mean" in the graph, which belongs to its parameter `of` and
  /// changes by `Builder::update` alone; every use returns the same one.
  Value state(std::string_view name, Value of, const Shape& shape, Initializer init,
              std::optional<DType> dtype = {}) const;

  /// x [..., in] · the layer's parameter "kernel" [in, features], which the step may keep quantised
  /// (`StepOptions::quantized`): [..., features] of x's element type.
  Value product(Value x, std::int64_t features, Initializer init) const;

  /// Whether the layer's parameter `name`, made before, is frozen by `StepOptions::frozen`.
  bool frozen(std::string_view name) const;

  /// The adapter that a step asks the layer for (`StepOptions::lora`), if its name is a target.
  std::optional<Lora> lora() const;

  /// "norm0"
  const std::string& name() const { return name_; }

 private:
  std::string path_of(std::string_view name) const;

  Builder& builder_;
  std::string name_;
  bool is_layer_ = true;
  DType dtype_ = f32;
};

/// Names layer `id`, if it is the next to be used, has no name of its own and is new.
void suggest_name(Builder& builder, const LayerId& id, std::string_view name);

}  // namespace alpa::nn
#pragma GCC visibility pop
