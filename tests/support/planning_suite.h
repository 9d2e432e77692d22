#pragma once
/// The graphs by which the planner is measured (bench/planner.cc) and tested: transformers written
/// with operators alone. Letters as in gpt_stack.h; E experts, C slots of an expert, F = 4 D.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string_view>

#include "gpt_stack.h"
#include "src/ir/recorder.h"

namespace alpa::testing {

/// Sizes and the number of experts of a model. The other fields of `stack` are the models' own.
struct SuiteShape {
  GptStack stack = {};
  std::int64_t vocabulary = 50257, experts = 16;
};

/// Small enough to be planned in milliseconds and run on threads.
inline SuiteShape tiny_shape(int layers) {
  return {.stack = {.layers = layers, .batch = 8, .sequence = 8, .hidden = 16, .heads = 2},
          .vocabulary = 24,
          .experts = 4};
}

/// Activations x and y [B, T, D], mean squared error over `layers` times `block(x, name, layer)`.
template <class Block>
TrainingStep squared_error_step(const GptStack& s, Block block) {
  const TensorType type{f32, {s.batch, s.sequence, s.hidden}};
  return training_step(
      {{"x", type}, {"y", type}},
      [s, block](const Batch& batch) {
        GptStack part = s;  // of one micro-batch
        Value x = batch["x"];
        part.batch = x.shape()[0];
        for (int layer = 0; layer < s.layers; ++layer) {
          const LayerScope scope(*x.builder, layer);
          x = block(part, x, fmt::format("layer{}", layer), layer);
        }
        return mean(square(x - batch["y"]));
      },
      optim::Adam{});
}

/// x + the MLP of a transformer, without layer norm.
inline TrainingStep residual_mlp_step(const GptStack& s) {
  return squared_error_step(s, [](const GptStack& part, Value x, const std::string& name, int) {
    return x + linear(gelu(linear(x, 4 * part.hidden, name + ".up")), part.hidden, name + ".down");
  });
}

/// x + attention, without layer norm.
inline TrainingStep attention_step(const GptStack& s) {
  return squared_error_step(s, [](const GptStack& part, Value x, const std::string& name, int) {
    return x + attention(part, x, name);
  });
}

/// Post-norm block of BERT (Devlin et al. 2018).
inline Value bert_block(const GptStack& s, Value x, const std::string& name) {
  x = layer_norm(s, x + attention(s, x, name), name + ".norm1");
  const Value wide = gelu(linear(x, 4 * s.hidden, name + ".up"));
  return layer_norm(s, x + linear(wide, s.hidden, name + ".down"), name + ".norm2");
}

/// Cross entropy of the masked words of one micro-batch; the logits share the embedding.
inline Value bert_loss(GptStack s, const Batch& batch) {
  Recorder& g = recorder(batch["x"]);
  s.batch = batch["x"].shape()[0];
  const auto table = [&](const std::string& name, std::int64_t rows) {
    return g.parameter(name, {f32, {rows, s.hidden}}, Initializer::normal(0, 0.02));
  };
  const auto look_up = [&](Value rows, Value ids) {
    return s.operators ? embedding(rows, ids)
                       : einsum("btv,vd->btd", one_hot(ids, rows.shape()[0]), rows);
  };
  const Value words = table("embedding", s.vocabulary);
  Value x = look_up(words, batch["x"]) + look_up(table("segment.embedding", 2), batch["segment"]) +
            table("position", s.sequence);
  x = layer_norm(s, x, "norm");
  for (int layer = 0; layer < s.layers; ++layer) {
    const LayerScope scope(g, layer);
    x = bert_block(s, x, fmt::format("layer{}", layer));
  }
  x = layer_norm(s, gelu(linear(x, s.hidden, "head")), "head.norm");
  const Value logits = einsum("btd,vd->btv", x, words) +
                       g.parameter("head.shift", {f32, {s.vocabulary}}, Initializer::zeros());
  return mean(softmax_cross_entropy(logits, batch["y"]) * batch["masked"]);
}

/// BERT with separate projections to queries, keys and values, and a masked-language head: tokens
/// "x", labels "y", segments i32 [B, T]; "masked" f32 [B, T] is 1 where the label is asked for.
inline TrainingStep bert_step(GptStack s, std::int64_t vocabulary) {
  s.vocabulary = vocabulary;
  s.reshape_heads = true;
  const TensorType tokens{i32, {s.batch, s.sequence}}, weights{f32, {s.batch, s.sequence}};
  return training_step(
      {{"x", tokens}, {"y", tokens}, {"segment", tokens}, {"masked", weights}},
      [s](const Batch& batch) { return bert_loss(s, batch); }, optim::Adam{});
}

/// 1 where x [B, T, E] has its maximum over the experts.
inline Value top_expert(Value x) { return cast(eq(x, max(x, {-1}, true)), x.dtype()); }

/// Weights [B, T, E, C] of tokens in the slots of experts: each token goes to its two best experts
/// and takes the first free slot; those that find none are dropped (Lepikhin et al. 2020, algorithm
/// 1, with a row of the batch as group).
inline Value route_to_two(Value gates, std::int64_t capacity) {
  const std::int64_t T = gates.shape()[1];
  const TensorType square_of_time{i32, {T, T}};
  Recorder& g = recorder(gates);
  const Value earlier =
      cast(gt(iota(g, square_of_time, 0), iota(g, square_of_time, 1)), gates.dtype());
  const Value first = top_expert(gates), second = top_expert(gates * (1 - first));
  const Value weights = gates / sum(gates * (first + second), {-1}, true);
  const auto in_slots = [&](Value chosen, Value taken) {
    const Value slot = sum((einsum("tu,bue->bte", earlier, chosen) + taken) * chosen, {-1});
    return einsum("bte,btc->btec", weights * chosen, one_hot(cast(slot, i32), capacity));
  };
  return in_slots(first, constant(g, 0)) + in_slots(second, sum(first, {1}, true));
}

/// A gelu MLP per expert, tokens sent there and back by einsums.
inline Value experts_by_einsum(Value x, std::int64_t experts, const std::string& name) {
  const std::int64_t T = x.shape()[1], D = x.shape()[2];
  const auto kernel = [&](const char* part, const Shape& shape, std::int64_t in) {
    return x.builder->parameter(name + part, {x.dtype(), shape},
                                Initializer::normal(0, 1 / std::sqrt(static_cast<double>(in))));
  };
  const Value gates = softmax(matmul(x, kernel(".gate", {D, experts}, D)));
  const Value combine = route_to_two(gates, std::max<std::int64_t>(1, 2 * T / experts));
  const Value dispatch = cast(gt(combine, 0), x.dtype());
  const Value in = einsum("btec,btd->ebcd", dispatch, x);
  const Value wide = gelu(einsum("ebcd,edf->ebcf", in, kernel(".up", {experts, D, 4 * D}, D)));
  const Value out = einsum("ebcf,efd->ebcd", wide, kernel(".down", {experts, 4 * D, D}, 4 * D));
  return einsum("btec,ebcd->btd", combine, out);
}

/// GPT blocks; the MLP of every second one, the first of them, is a mixture of experts.
inline TrainingStep moe_step(const GptStack& s, std::int64_t experts) {
  return squared_error_step(s, [=](const GptStack& part, Value x, const std::string& name,
                                   int layer) {
    if (layer % 2 == 1) return gpt_block(part, x, name);
    x = x + attention(part, layer_norm(part, x, name + ".norm1"), name);
    return x + experts_by_einsum(layer_norm(part, x, name + ".norm2"), experts, name + ".experts");
  });
}

inline TrainingStep gpt_with_operators(GptStack s) {
  s.operators = true;
  return gpt_step(s);
}

/// The embedding and the logits share a table.
inline TrainingStep gpt_with_vocabulary(GptStack s, std::int64_t vocabulary) {
  s.vocabulary = vocabulary;
  s.causal = true;
  return gpt_step(s);
}

struct SuiteModel {
  std::string_view name;
  TrainingStep (*step)(const SuiteShape&);
};

/// All models.
inline constexpr SuiteModel kPlanningSuite[] = {
    {"gpt", [](const SuiteShape& s) { return gpt_step(s.stack); }},
    {"gpt-operators", [](const SuiteShape& s) { return gpt_with_operators(s.stack); }},
    {"gpt-vocabulary",
     [](const SuiteShape& s) { return gpt_with_vocabulary(s.stack, s.vocabulary); }},
    {"bert", [](const SuiteShape& s) { return bert_step(s.stack, s.vocabulary); }},
    {"moe", [](const SuiteShape& s) { return moe_step(s.stack, s.experts); }},
    {"residual-mlp", [](const SuiteShape& s) { return residual_mlp_step(s.stack); }},
    {"attention", [](const SuiteShape& s) { return attention_step(s.stack); }},
};

/// The model of this name. Throws std::out_of_range.
inline TrainingStep suite_step(std::string_view name, const SuiteShape& shape) {
  for (const SuiteModel& model : kPlanningSuite)
    if (model.name == name) return model.step(shape);
  throw std::out_of_range("the planning suite has no " + std::string(name));
}

}  // namespace alpa::testing
