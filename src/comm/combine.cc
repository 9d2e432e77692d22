// src/comm/combine.cc — sums and maxima over the members of a group
#include "combine.h"

#include <algorithm>
#include <type_traits>

#include "src/base/half.h"

namespace alpa::comm {
namespace {

/// Elements combined at a time: the sums of a block stay in the first-level cache.
constexpr std::int64_t kBlock = 1024;

inline float widen(float x) { return x; }
inline double widen(double x) { return x; }
inline float widen(Bf16 x) { return to_float(x); }
inline float widen(F16 x) { return to_float(x); }
inline std::uint32_t widen(std::uint32_t x) { return x; }
inline std::int32_t widen(std::int32_t x) { return x; }
inline std::uint8_t widen(std::uint8_t x) { return x; }

template <class T, class Wide>
inline T narrow(Wide x) {
  if constexpr (std::is_same_v<T, Bf16>)
    return to_bf16(x);
  else if constexpr (std::is_same_v<T, F16>)
    return to_f16(x);
  else
    return static_cast<T>(x);
}

struct Sum {
  template <class Wide>
  Wide operator()(Wide a, Wide b) const {
    return static_cast<Wide>(a + b);
  }
};

struct Max {
  template <class Wide>
  Wide operator()(Wide a, Wide b) const {
    return (a >= b || a != a) ? a : b;  // NaN in either place stays
  }
};

template <class T, class Op>
void combine_blocks(std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                    std::int64_t count) {
  using Wide = decltype(widen(T{}));
  Wide block[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, count - begin);
    const T* first = reinterpret_cast<const T*>(sources[0]) + begin;
    for (std::int64_t i = 0; i < n; ++i) block[i] = widen(first[i]);
    for (const std::byte* source : sources.subspan(1)) {
      const T* next = reinterpret_cast<const T*>(source) + begin;
      for (std::int64_t i = 0; i < n; ++i) block[i] = Op{}(block[i], widen(next[i]));
    }
    for (std::byte* target : targets) {
      T* to = reinterpret_cast<T*>(target) + begin;
      for (std::int64_t i = 0; i < n; ++i) to[i] = narrow<T>(block[i]);
    }
  }
}

/// i32 sums are taken unsigned, where wrapping is defined; maxima need the sign.
template <class T, class SumType = T>
void combine_as(Combiner combiner, std::span<const std::byte* const> sources,
                std::span<std::byte* const> targets, std::int64_t count) {
  if (combiner == Combiner::sum)
    combine_blocks<SumType, Sum>(sources, targets, count);
  else
    combine_blocks<T, Max>(sources, targets, count);
}

}  // namespace

void combine(DType dtype, Combiner combiner, std::span<const std::byte* const> sources,
             std::span<std::byte* const> targets, std::int64_t count) {
  switch (dtype) {
    case DType::f32: return combine_as<float>(combiner, sources, targets, count);
    case DType::f64: return combine_as<double>(combiner, sources, targets, count);
    case DType::bf16: return combine_as<Bf16>(combiner, sources, targets, count);
    case DType::f16: return combine_as<F16>(combiner, sources, targets, count);
    case DType::i32:
      return combine_as<std::int32_t, std::uint32_t>(combiner, sources, targets, count);
    case DType::u8: return combine_as<std::uint8_t>(combiner, sources, targets, count);
  }
}

}  // namespace alpa::comm
