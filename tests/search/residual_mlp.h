#pragma once
/// A small step of which any layers may be computed again.
#include <cstdint>
#include <vector>

#include "alpa/alpa.h"

namespace alpa::testing {

struct ResidualMlp {
  int layers = 3;
  std::int64_t rows = 64, width = 16, inner = 64;
  bool is_gated = false;  ///< by silu, of which gradients compute parts again

  constexpr int all() const { return (1 << layers) - 1; }  ///< the set of all layers

  /// Layers x + relu(x U) D, or x + (silu(x G) · x U) D, of which those whose bit of `set` is 1 are
  /// computed again.
  template <class Optimizer>
  Graph graph(int set, int micro_batches, const Optimizer& optimizer) const {
    const auto model = [shape = *this](const Batch& batch) {
      Value x = batch["x"];
      for (int layer = 0; layer < shape.layers; ++layer) {
        const LayerScope scope(batch.builder(), layer);
        const RematScope remat(batch.builder());
        x = x + (shape.is_gated ? nn::SwiGLU(shape.width, shape.inner)(x)
                                : nn::Dense{shape.width}(relu(nn::Dense{shape.inner}(x))));
      }
      return mean(x * x);
    };
    std::vector<int> again;
    for (int layer = 0; layer < layers; ++layer)
      if (set >> layer & 1) again.push_back(layer);
    return with_remat(training_step({{"x", {f32, {rows, width}}}}, model, optimizer,
                                    {.remat = Remat::automatic}),
                      again)
        .trace(micro_batches);
  }
};

}  // namespace alpa::testing
