#pragma once
/// What kernels of attention know of a score: whether its key is seen, and what dropout makes of
/// it. Device code only.
#include "kernels/cuda/device.h"
#include "kernels/cuda/step_numbers.h"
#include "kernels/plan/attention_shape.h"
#include "src/base/philox.h"

namespace alpa::cuda {

/// What dropout multiplies a probability with.
template <class S>
__device__ S kept(const kernels::AttentionShape& s, const StepNumbers* step, std::int64_t batch,
                  std::int64_t head, std::int64_t t, std::int64_t key) {
  if (s.dropout <= 0) return S(1);
  const RandomStream stream = random_stream(step->seed, s.stream, step->step, step->micro_batch);
  const auto index = static_cast<std::uint64_t>(s.draws + batch * s.draws_of_row +
                                                head * s.draws_of_head + t * s.keys + key);
  const Philox4 words = random_words(stream, index / 4);
  // Of constant places, so that no word is in memory.
  const std::uint32_t low = index % 2 != 0 ? words.word[1] : words.word[0],
                      high = index % 2 != 0 ? words.word[3] : words.word[2];
  const double number = unit_interval(static_cast<double>(index % 4 >= 2 ? high : low));
  return number >= s.dropout ? static_cast<S>(1 / (1 - s.dropout)) : S(0);
}

/// Number of keys that query t sees, masks apart.
__device__ inline std::int64_t seen_keys(const kernels::AttentionShape& s, std::int64_t t) {
  const std::int64_t n = t + s.visible;
  return n < 0 ? 0 : n < s.keys ? n : s.keys;
}

__device__ inline bool is_seen(const kernels::AttentionShape& s, const std::uint8_t* mask,
                               std::int64_t batch, std::int64_t t, std::int64_t key) {
  return key < seen_keys(s, t) && (mask == nullptr || mask[batch * s.keys + key] != 0);
}

/// Place of a query's number in [B, H, T].
__device__ inline std::int64_t number_of(const kernels::AttentionShape& s, std::int64_t batch,
                                         std::int64_t head, std::int64_t t) {
  return (batch * s.heads + head) * s.queries + t;
}

}  // namespace alpa::cuda
