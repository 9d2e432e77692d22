#pragma once
/// What kernels of attention know of a score: whether its key is seen, and what dropout makes of
/// it. Device code only.
#include "kernels/cuda/device.h"
#include "kernels/cuda/least_word.h"
#include "kernels/cuda/step_numbers.h"
#include "kernels/plan/attention_shape.h"
#include "src/base/philox.h"

namespace alpa::cuda {

/// Dropout of a head's probabilities. The step's numbers are read where there is dropout alone.
class Dropout {
 public:
  __device__ Dropout(const kernels::AttentionShape& s, const StepNumbers* step, std::int64_t batch,
                     std::int64_t head)
      : first_(s.draws + batch * s.draws_of_row + head * s.draws_of_head), keys_(s.keys) {
    if (s.dropout <= 0) return;
    stream_ = random_stream(step->seed, s.stream, step->step, step->micro_batch);
    factor_ = static_cast<float>(1 / (1 - s.dropout));
    const std::uint64_t least = least_word(s.dropout);
    drops_ = least > 0;
    last_dropped_ = static_cast<std::uint32_t>(least - 1);
  }

  /// What a kept probability is multiplied with.
  __device__ float factor() const { return factor_; }

  __device__ bool keeps(std::int64_t t, std::int64_t key) const {
    const std::uint64_t number = number_of(t, key);
    return !drops_ || (bits_of(random_words(stream_, number / 4)) >> number % 4 & 1) != 0;
  }

  /// Bit i: query t keeps key + i. A draw is four words, of numbers 4 n to 4 n + 3: where these are
  /// other keys, it takes two draws.
  __device__ unsigned kept_of_four(std::int64_t t, std::int64_t key) const {
    if (!drops_) return 0xf;
    const std::uint64_t number = number_of(t, key);
    const unsigned shift = number % 4;
    unsigned bits = bits_of(random_words(stream_, number / 4));
    if (shift != 0) bits |= bits_of(random_words(stream_, number / 4 + 1)) << 4;
    return bits >> shift & 0xf;
  }

 private:
  __device__ std::uint64_t number_of(std::int64_t t, std::int64_t key) const {
    return static_cast<std::uint64_t>(first_ + t * keys_ + key);
  }
  __device__ unsigned bits_of(const Philox4& words) const {
    unsigned bits = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) bits |= (words.word[i] > last_dropped_ ? 1u : 0u) << i;
    return bits;
  }

  RandomStream stream_;
  std::int64_t first_, keys_;
  float factor_ = 1;
  std::uint32_t last_dropped_ = 0;
  bool drops_ = false;
};

// ---- four lanes' scores of a draw, as attention_tiles.cu lays them out. What a lane keeps of its
// results n is a number, of which bit 4 n + i is element i's.

/// Rows are queries, from `query` on, and columns keys: two lanes share the draws of two rows.
template <int n, class WarpLane>
__device__ unsigned kept_of_queries(const Dropout& dropout, const WarpLane& at, std::int64_t query,
                                    std::int64_t key) {
  const int which = at.lane % 2, of_four = at.pair & 2;
  unsigned own = 0;
#pragma unroll 2
  for (int i = 0; i < n; ++i)
    own |= dropout.kept_of_four(query + at.row(2 * which), key + 8 * i + (at.pair & 4)) << 4 * i;
  const unsigned other = __shfl_xor_sync(~0u, own, 1, 32);
  const unsigned above = which == 0 ? own : other, below = which == 0 ? other : own;
  return (above >> of_four & 0x33333333) | (below >> of_four & 0x33333333) << 2;
}

/// Rows are keys and columns queries: four lanes share the draws of their four elements, each of
/// four keys.
template <int n, class WarpLane>
__device__ unsigned kept_of_keys(const Dropout& dropout, const WarpLane& at, std::int64_t query,
                                 std::int64_t key) {
  const int which = at.group % 4;
  unsigned own = 0, kept = 0;
#pragma unroll 2
  for (int i = 0; i < n; ++i)
    own |= dropout.kept_of_four(query + at.column(i, which), key + at.row(which) - which) << 4 * i;
#pragma unroll
  for (int apart = 0; apart < 4; ++apart) {
    const unsigned drawn = __shfl_xor_sync(~0u, own, 4 * apart, 32);
    kept |= (drawn >> which & 0x11111111) << (which ^ apart);
  }
  return kept;
}

/// What dropout multiplies a probability with.
template <class S>
__device__ S kept(const kernels::AttentionShape& s, const StepNumbers* step, std::int64_t batch,
                  std::int64_t head, std::int64_t t, std::int64_t key) {
  if (s.dropout <= 0) return S(1);
  return Dropout(s, step, batch, head).keeps(t, key) ? static_cast<S>(1 / (1 - s.dropout)) : S(0);
}

/// Number of keys that query t sees, masks apart.
__device__ inline std::int64_t seen_keys(const kernels::AttentionShape& s, std::int64_t t) {
  const std::int64_t n = t + s.visible;
  return n < 0 ? 0 : n < s.keys ? n : s.keys;
}

/// The first key that query t sees, masks apart.
__device__ inline std::int64_t first_seen_key(const kernels::AttentionShape& s, std::int64_t t) {
  const std::int64_t first = t + s.visible - s.window;
  return s.window == 0 || first < 0 ? 0 : first;
}

__device__ inline bool is_seen(const kernels::AttentionShape& s, const std::uint8_t* mask,
                               std::int64_t batch, std::int64_t t, std::int64_t key) {
  return key < seen_keys(s, t) && key >= first_seen_key(s, t) &&
         (mask == nullptr || mask[batch * s.keys + key] != 0);
}

/// Whether a query and a key, both of the tensors, are of one segment.
__device__ inline bool are_together(const kernels::AttentionShape& s,
                                    const kernels::HiddenKeys& hidden, std::int64_t batch,
                                    std::int64_t t, std::int64_t key) {
  return hidden.query_segments == nullptr ||
         hidden.query_segments[batch * s.queries + t] == hidden.key_segments[batch * s.keys + key];
}

/// A product of q and k that `scale` makes a score, as it is under the soft cap. tanhf and double
/// divisions, which keep numbers in local memory, are not needed: a cap is exact to a rounding of
/// the largest score.
__device__ inline float capped(const kernels::AttentionShape& s, float product) {
  const float share = product * static_cast<float>(s.cap_inverse);
  return (1 - 2 / (1 + ::expf(2 * share))) / static_cast<float>(s.cap_inverse);
}
__device__ inline double capped(const kernels::AttentionShape& s, double product) {
  return ::tanh(product * s.cap_inverse) / s.cap_inverse;
}
/// The derivative of that, from its result.
template <class S>
__device__ S slope_of_cap(const kernels::AttentionShape& s, S result) {
  const S share = result * static_cast<S>(s.cap_inverse);
  return 1 - share * share;
}

/// Place of a query's number in [B, H, T].
__device__ inline std::int64_t number_of(const kernels::AttentionShape& s, std::int64_t batch,
                                         std::int64_t head, std::int64_t t) {
  return (batch * s.heads + head) * s.queries + t;
}

}  // namespace alpa::cuda
