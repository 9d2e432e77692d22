#pragma once
/// A GPT-like training step, written with operators alone, as somebody writes one who uses alpa for
/// the first time: pre-norm blocks of attention by einsum and a gelu MLP, residuals, Adam. Letters
/// as in the papers: B batch, T time, D hidden, H heads, K = D / H, V vocabulary.
#include <fmt/core.h>

#include <cmath>
#include <string>
#include <utility>

#include "alpa/ops/ops.h"
#include "alpa/optim/adam.h"
#include "alpa/train/training_step.h"
#include "src/ir/recorder.h"

namespace alpa::testing {

struct GptStack {
  int layers = 2;
  std::int64_t batch = 32, sequence = 256, hidden = 1024, heads = 16;
  /// Positive: tokens "x" and labels "y" i32 [B, T], a one-hot embedding that the logits share,
  /// cross entropy. 0: "x" and "y" f32 [B, T, D], mean squared error.
  std::int64_t vocabulary = 0;
  bool causal = false;  ///< a token attends to itself and to those before it
  /// projections are products [D, D] and a reshape instead of einsums [D, H, K]
  bool reshape_heads = false;
  bool operators = false;  ///< layer norms and the embedding are operators instead of compositions
};

/// gain · (x - mean) / sqrt(variance + 1e-5) + shift over the last dimension.
inline Value layer_norm(const GptStack& s, Value x, const std::string& name) {
  Recorder& g = recorder(x);
  const TensorType type{x.dtype(), {x.shape().back()}};
  if (s.operators)
    return alpa::layer_norm(x, g.parameter(name + ".gain", type, Initializer::ones()),
                            g.parameter(name + ".shift", type, Initializer::zeros()));
  const Value centred = x - mean(x, {-1}, true);
  const Value normal = centred * rsqrt(mean(square(centred), {-1}, true) + 1e-5);
  return normal * g.parameter(name + ".gain", type, Initializer::ones()) +
         g.parameter(name + ".shift", type, Initializer::zeros());
}

/// x · w + b over the last dimension.
inline Value linear(Value x, std::int64_t features, const std::string& name) {
  Recorder& g = recorder(x);
  const std::int64_t in = x.shape().back();
  const Value w = g.parameter(name + ".kernel", {x.dtype(), {in, features}},
                              Initializer::normal(0, 1 / std::sqrt(static_cast<double>(in))));
  return matmul(x, w) + g.parameter(name + ".bias", {x.dtype(), {features}}, Initializer::zeros());
}

/// The projection of x [B, T, D] on H heads: [B, H, T, K].
inline Value split_heads(const GptStack& s, Value x, const std::string& name) {
  const std::int64_t K = s.hidden / s.heads;
  if (s.reshape_heads)
    return transpose(reshape(linear(x, s.hidden, name), {s.batch, s.sequence, s.heads, K}),
                     {0, 2, 1, 3});
  const Value w =
      x.builder->parameter(name + ".kernel", {x.dtype(), {s.hidden, s.heads, K}},
                           Initializer::normal(0, 1 / std::sqrt(static_cast<double>(s.hidden))));
  return einsum("btd,dhk->bhtk", x, w);
}

/// The heads [B, H, T, K] projected back: [B, T, D].
inline Value join_heads(const GptStack& s, Value heads, const std::string& name) {
  if (s.reshape_heads)
    return linear(reshape(transpose(heads, {0, 2, 1, 3}), {s.batch, s.sequence, s.hidden}),
                  s.hidden, name);
  const Value w = heads.builder->parameter(
      name + ".kernel", {heads.dtype(), {s.heads, s.hidden / s.heads, s.hidden}},
      Initializer::normal(0, 1 / std::sqrt(static_cast<double>(s.hidden))));
  return einsum("bhtk,hkd->btd", heads, w);
}

/// softmax(q · kᵀ / sqrt(K)) · v with separate projections.
inline Value attention(const GptStack& s, Value x, const std::string& name) {
  const Value q = split_heads(s, x, name + ".query"), k = split_heads(s, x, name + ".key"),
              v = split_heads(s, x, name + ".value");
  const double scale = 1 / std::sqrt(static_cast<double>(s.hidden / s.heads));
  Value scores = einsum("bhqk,bhtk->bhqt", q, k) * scale;
  if (s.causal) {
    const TensorType square_of_time{i32, {s.sequence, s.sequence}};
    const Value past = ge(iota(*x.builder, square_of_time, 0), iota(*x.builder, square_of_time, 1));
    scores = where(past, scores, -1e9);
  }
  return join_heads(s, einsum("bhqt,bhtk->bhqk", softmax(scores), v), name + ".output");
}

inline Value gpt_block(const GptStack& s, Value x, const std::string& name) {
  x = x + attention(s, layer_norm(s, x, name + ".norm1"), name);
  const Value wide = gelu(linear(layer_norm(s, x, name + ".norm2"), 4 * s.hidden, name + ".up"));
  return x + linear(wide, s.hidden, name + ".down");
}

/// The loss of one micro-batch.
inline Value gpt_loss(GptStack s, const Batch& batch) {
  Value x = batch["x"];
  Recorder& g = recorder(x);
  s.batch = x.shape()[0];
  Value table;
  if (s.vocabulary > 0) {
    table = g.parameter("embedding", {f32, {s.vocabulary, s.hidden}}, Initializer::normal(0, 0.02));
    x = (s.operators ? embedding(table, x)
                     : einsum("btv,vd->btd", one_hot(x, s.vocabulary), table)) +
        g.parameter("position", {f32, {s.sequence, s.hidden}}, Initializer::normal(0, 0.02));
  }
  for (int layer = 0; layer < s.layers; ++layer) {
    const LayerScope scope(g, layer);
    x = gpt_block(s, x, fmt::format("layer{}", layer));
  }
  x = layer_norm(s, x, "norm");
  if (s.vocabulary == 0) return mean(square(x - batch["y"]));
  return mean(softmax_cross_entropy(einsum("btd,vd->btv", x, table), batch["y"]));
}

inline TrainingStep gpt_step(const GptStack& s, Optimizer optimizer = optim::Adam{}) {
  const TensorType type = s.vocabulary > 0 ? TensorType{i32, {s.batch, s.sequence}}
                                           : TensorType{f32, {s.batch, s.sequence, s.hidden}};
  return training_step(
      {{"x", type}, {"y", type}}, [s](const Batch& batch) { return gpt_loss(s, batch); },
      std::move(optimizer));
}

/// The step's graph for one micro-batch, as planners see it.
inline Graph gpt_graph(const GptStack& s) { return gpt_step(s).trace(1); }

}  // namespace alpa::testing
