#pragma once
/// What all layers share. A layer is any callable `Value(Value)`; one with parameters carries a `LayerId`,
/// and copies of it use the same parameters (weight tying).
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "alpa/ir/builder.h"

namespace alpa::nn {

/// Identity of a layer with parameters: unique in the process, shared by copies. Gives the layer its name
/// in each graph, "dense0", "dense1", … in order of first use.
class LayerId {
 public:
  LayerId() : id_(next().fetch_add(1, std::memory_order_relaxed)) {}

  /// `kind` and a number, the same at every use within one graph.
  const std::string& name(Builder& builder, std::string_view kind) const {
    return builder.name_of(reinterpret_cast<const void*>(id_), kind);
  }

 private:
  static std::atomic<std::uintptr_t>& next() {
    static std::atomic<std::uintptr_t> counter{1};
    return counter;
  }
  std::uintptr_t id_;
};

/// Nodes appended while it lives carry `name` as a prefix.
class Scope {
 public:
  Scope(Builder& builder, const std::string& name) : builder_(builder) { builder_.push_scope(name); }
  ~Scope() { builder_.pop_scope(); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Builder& builder_;
};

}  // namespace alpa::nn
