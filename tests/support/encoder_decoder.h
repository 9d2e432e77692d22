#pragma once
/// A small encoder-decoder as a user writes one: four encoder layers, three decoder layers, each of
/// which attends to what the encoder gives. Tokens i32 [B, T]: "source", "target", "labels".
#include <vector>

#include "alpa/alpa.h"

namespace alpa::testing::encoder_decoder {

inline constexpr std::int64_t kRows = 16, kSource = 12, kTarget = 10, kWidth = 8, kHeads = 2,
                              kWords = 40;

struct Attention {
  nn::Dense query{kWidth}, key{kWidth}, value{kWidth}, out{kWidth};

  static Value split(Value x) { return reshape(x, {x.dim(0), x.dim(1), kHeads, kWidth / kHeads}); }
  Value operator()(Value x, Value memory, bool causal) const {
    const Value q = split(query(x)), k = split(key(memory)), v = split(value(memory));
    return out(reshape(attention(q, k, v, {.causal = causal}), x.shape()));
  }
};

struct Mlp {
  nn::Dense up{4 * kWidth}, down{kWidth};
  Value operator()(Value x) const { return down(gelu(up(x))); }
};

struct EncoderLayer {
  nn::LayerNorm before_attention, before_mlp;
  Attention self;
  Mlp mlp;
  Value operator()(Value x) const {
    const Value h = before_attention(x);
    x = x + self(h, h, false);
    return x + mlp(before_mlp(x));
  }
};

struct DecoderLayer {
  nn::LayerNorm before_self, before_cross, before_mlp;
  Attention self, cross;
  Mlp mlp;
  Value operator()(Value x, Value memory) const {
    const Value h = before_self(x);
    x = x + self(h, h, true);
    x = x + cross(before_cross(x), memory, false);
    return x + mlp(before_mlp(x));
  }
};

struct EncoderDecoder {
  nn::Embedding source{kWords, kWidth}, target{kWords, kWidth};
  std::vector<EncoderLayer> encoder = std::vector<EncoderLayer>(4);
  std::vector<DecoderLayer> decoder = std::vector<DecoderLayer>(3);
  nn::LayerNorm last;
  nn::Dense head{kWords};

  LossAndMetrics operator()(const Batch& batch) const {
    Value memory = source(batch["source"]);
    for (const EncoderLayer& layer : encoder) memory = layer(memory);
    Value x = target(batch["target"]);
    for (const DecoderLayer& layer : decoder) x = layer(x, memory);
    return nn::cross_entropy(head(last(x)), batch["labels"]);
  }
};

/// The step with Adam; about 32 kB of parameters.
inline TrainingStep encoder_decoder_step() {
  const TensorType target{i32, {kRows, kTarget}};
  EncoderDecoder model;
  return training_step(
      {{"source", {i32, {kRows, kSource}}}, {"target", target}, {"labels", target}}, model,
      optim::Adam{});
}

}  // namespace alpa::testing::encoder_decoder
