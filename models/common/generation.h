#pragma once
/// Text from a trained decoder, token by token, with a cache of keys and values.
#include <cstdint>
#include <span>
#include <vector>

#include "models/gpt.h"

namespace models {

struct SamplingOptions {
  double temperature = 1;  ///< divides the logits; 0: always the likeliest token
  std::int64_t top_k = 0;  ///< of the likeliest tokens; 0: of all
  std::uint64_t seed = 0;
  /// Draws tokens below this number, those that a tokenizer has; 0: all of the decoder's.
  std::int64_t tokens = 0;
};

/// A token drawn with the probabilities softmax(logits / temperature) of the `top_k` likeliest
/// tokens. `number` is uniform in [0, 1).
std::int32_t sample(std::span<const float> logits, const SamplingOptions& options, double number);

/// Throws Error if the prompt is empty, or both together exceed a decoder's `sequence`.
void check_lengths(std::int64_t prompt, std::int64_t count, std::int64_t sequence);

/// `count` tokens that follow `prompt`, drawn from `decoder` with the parameters of `trained`, on
/// one CPU device. Throws Error if the prompt is empty or both together exceed the decoder's
/// sequence.
std::vector<std::int32_t> generate(const Decoder& decoder, const alpa::TrainState& trained,
                                   std::span<const std::int32_t> prompt, std::int64_t count,
                                   const SamplingOptions& options);

}  // namespace models
