#pragma once
/// Training graphs for planner tests, written with builder and operators alone.
#include <fmt/core.h>

#include <string>
#include <vector>

#include "alpa/autograd/gradient.h"
#include "alpa/ops/ops.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "src/train/accumulation.h"

namespace alpa::testing {

struct MlpShape {
  int layers = 2;
  std::int64_t batch = 8, width = 8;
  std::int64_t hidden = 0;  ///< width of odd layers' results; 0: the same
  int num_micro_batches = 1;
  bool bias = true;
  bool report_loss = true;
};

/// Adam on every parameter: one fused node with two states each. Its epsilon is above the rounding
/// of gradients that should be 0, so that these do not move parameters.
inline void adam(Recorder& g, const Values& gradients) {
  const Value rate = g.input(InputKind::scalar, "learning_rate", {f32, {}});
  const Value step = g.input(InputKind::scalar, "step", {f32, {}});
  const Values parameters = g.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Value m = g.optimizer_state(parameters[i], "adam_m"),
                v = g.optimizer_state(parameters[i], "adam_v");
    const Values updated =
        g.emit(ops::multi_tensor_adam, {parameters[i], m, v, gradients[i], rate, step},
               {{"beta1", 0.9},
                {"beta2", 0.999},
                {"epsilon", 1e-6},
                {"weight_decay", 0.0},
                {"decoupled", std::int64_t{1}}});
    g.update(parameters[i], updated[0]);
    g.update(m, updated[1]);
    g.update(v, updated[2]);
  }
}

/// Sums over the micro-batches, which are read in region apply.
inline Values accumulated(Recorder& g, Values values, const std::string& prefix) {
  if (g.num_micro_batches() > 1) g.set_region(Region::backward);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = micro_batch_sum(fmt::format("{}{}", prefix, i), values[i]);
  return values;
}

/// L x Dense with ReLU after all but the last, loss mean((out - y)²), Adam: test_mlp.py of the
/// reference, with batches as inputs.
inline Graph mlp_graph(const MlpShape& shape) {
  Recorder g(shape.num_micro_batches);
  Value h = g.input(InputKind::batch, "x", {f32, {shape.batch, shape.width}});
  const Value y = g.input(InputKind::batch, "y", {f32, {shape.batch, shape.width}});
  for (int layer = 0; layer < shape.layers; ++layer) {
    const bool widen = shape.hidden > 0 && layer % 2 == 0 && layer + 1 < shape.layers;
    const std::int64_t out = widen ? shape.hidden : shape.width;
    h = matmul(h,
               g.parameter(fmt::format("dense{}.kernel", layer), {f32, {h.shape()[1], out}}, {}));
    if (shape.bias) h = h + g.parameter(fmt::format("dense{}.bias", layer), {f32, {out}}, {});
    if (layer + 1 < shape.layers) h = relu(h);
  }
  const Value loss = mean(square(h - y));
  const Values gradients = accumulated(g, gradient(loss, g.parameters()), "gradient");
  Values reported;
  if (shape.report_loss) reported = accumulated(g, {loss}, "loss");
  g.set_region(Region::apply);
  adam(g, gradients);
  if (shape.report_loss) g.metric("loss", reported[0]);
  return g.finish();
}

}  // namespace alpa::testing
