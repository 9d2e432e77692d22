#pragma once
/// Identity and scope of layers. A layer is any callable `Value(Value)`. A layer with parameters
/// holds a `LayerId`; its copies use the same parameters (weight tying).
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "alpa/ir/builder.h"

namespace alpa::nn {

/// Identity of a layer with parameters: unique in the process, shared by copies.
class LayerId {
 public:
  LayerId() : id_(next().fetch_add(1, std::memory_order_relaxed)) {}

  /// Freezes the parameters that a `Scope` makes for this copy from now on:
  /// training does not change them.
  void freeze() { frozen_ = true; }

 private:
  friend class Scope;
  static std::atomic<std::uintptr_t>& next() {
    static std::atomic<std::uintptr_t> counter{1};
    return counter;
  }
  std::uintptr_t id_;
  bool frozen_ = false;
};

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
/// The layer's name is its kind and a number, "norm0", "norm1", …, the same at
/// every use within a graph.
class Scope {
 public:
  /// A use on `x`. The parameters have its element type; if that is not floating, the step's.
  Scope(Value x, const LayerId& id, std::string_view kind)
      : Scope(*x.builder, id, kind,
              is_floating(x.dtype()) ? std::optional(x.dtype()) : std::nullopt) {}
  /// A use without an operand, e.g. of parameters alone. Without `dtype` they have the step's type:
  /// f32, or half precision (`StepOptions::precision`).
  Scope(Builder& builder, const LayerId& id, std::string_view kind, std::optional<DType> dtype = {})
      : builder_(builder),
        name_(builder.name_of(reinterpret_cast<const void*>(id.id_), kind)),
        frozen_(id.frozen_),
        dtype_(dtype.value_or(builder.parameter_view().compute)) {
    builder_.push_scope(name_);
  }
  ~Scope() { builder_.pop_scope(); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// The layer's parameter `name`, "norm0.gain" in the graph; every use returns the same one.
  /// Throws Error if it was made with another type.
  Value parameter(std::string_view name, const Shape& shape, Initializer init,
                  std::optional<DType> dtype = {}) const {
    return builder_.parameter(name_ + "." + std::string(name), {dtype.value_or(dtype_), shape},
                              init, frozen_);
  }

  /// The layer's state `name`, "norm0.mean" in the graph, which belongs to its parameter `of` and
  /// changes by `Builder::update` alone; every use returns the same one.
  Value state(std::string_view name, Value of, const Shape& shape, Initializer init,
              std::optional<DType> dtype = {}) const {
    return builder_.state_of(of, name_ + "." + std::string(name), {dtype.value_or(dtype_), shape},
                             init);
  }

  /// Whether parameters made here are frozen.
  bool frozen() const { return frozen_ || builder_.freezing(); }

  /// "norm0"
  const std::string& name() const { return name_; }

 private:
  Builder& builder_;
  std::string name_;
  bool frozen_;
  DType dtype_;
};

}  // namespace alpa::nn
