#pragma once
/// Initialisers of kernels, as functions of the number of inputs and outputs of
/// a unit (fan in, fan out).
#include <cstdint>
#include <functional>

#include "alpa/ir/builder.h"
#pragma GCC visibility push(default)

namespace alpa::nn {

/// Initialiser of a kernel with `fan_in` inputs and `fan_out` outputs. A fixed one converts to
/// it: `Initializer::normal(0, 0.02)`.
class KernelInitializer {
 public:
  /// an initialiser by fan-in and fan-out
  using Function = Initializer (*)(std::int64_t fan_in, std::int64_t fan_out);
  // NOLINT: `.kernel = nn::glorot_uniform`
  KernelInitializer(Function function) : make_(function) {}
  KernelInitializer(Initializer fixed)
      : make_([fixed](std::int64_t, std::int64_t) { return fixed; }) {}  // NOLINT
  Initializer operator()(std::int64_t fan_in, std::int64_t fan_out) const {
    return make_(fan_in, fan_out);
  }

 private:
  std::function<Initializer(std::int64_t, std::int64_t)> make_;
};

/// Normal with variance 2 / fan_in, which keeps the scale of activations through
/// ReLU layers (He et al. 2015).
Initializer he_normal(std::int64_t fan_in, std::int64_t fan_out);

/// Uniform in ±sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010).
Initializer glorot_uniform(std::int64_t fan_in, std::int64_t fan_out);

/// Normal with variance 1 / fan_in (LeCun et al. 1998).
Initializer lecun_normal(std::int64_t fan_in, std::int64_t fan_out);

}  // namespace alpa::nn
#pragma GCC visibility pop
