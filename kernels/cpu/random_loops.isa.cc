// kernels/cpu/random_loops.isa.cc — inner loops of random numbers. Bits must be the same on every
// processor, so a·b + c must not be contracted here.
#if defined(__clang__)
#pragma clang fp contract(off)
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"
#include "src/base/philox.h"

namespace alpa::cpu::ALPA_ISA {

/// x = mantissa · 2^exponent, mantissa in [sqrt(1/2), sqrt(2)); as in alpa/base/philox.h.
ALPA_INLINE void split(F64 x, F64& mantissa, F64& exponent) {
  const Int64s shifted = reinterpret_cast<Int64s>(x.v) - 0x3fe6a09e667f3bcd;
  const Int64s biased =
      (shifted >> 52) + 0x4338000000000000;  // the exponent as the lowest bits of 1.5 · 2^52
  exponent = F64(reinterpret_cast<Float64s>(biased)) - F64(6755399441055744.0);
  mantissa = reinterpret_cast<Float64s>((shifted & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd);
}

namespace {

typedef std::uint64_t Word64s __attribute__((vector_size(kBytes)));

/// Words below 2^32, one per lane, as numbers.
ALPA_INLINE F64 to_real(Word64s words) {
  return F64(reinterpret_cast<Float64s>(words | 0x4330000000000000)) - F64(4503599627370496.0);
}

struct FourWords {
  Word64s word[4];
};

/// The words of F64::lanes successive groups.
ALPA_INLINE FourWords draw(const RandomStream& stream, std::uint64_t group) {
  Word64s index;
  for (int lane = 0; lane < kLanes64; ++lane)
    index[lane] = group + static_cast<std::uint64_t>(lane);
  FourWords w{
      {index & 0xffffffff, index >> 32, Word64s{} + stream.step, Word64s{} + stream.micro_batch}};
  philox_rounds(w.word[0], w.word[1], w.word[2], w.word[3], static_cast<std::uint32_t>(stream.key),
                static_cast<std::uint32_t>(stream.key >> 32));
  return w;
}

/// out[4·lane + column] = x[lane]
ALPA_INLINE void store_column(double* out, int column, F64 x) {
  for (int lane = 0; lane < kLanes64; ++lane) out[4 * lane + column] = x.v[lane];
}

/// Four standard normal, or uniform, numbers for each of `groups` groups, a multiple of F64::lanes.
void normal(double* out, const RandomStream& stream, std::uint64_t group, std::int64_t groups) {
  for (std::int64_t i = 0; i < groups; i += kLanes64, out += 4 * kLanes64) {
    const FourWords w = draw(stream, group + static_cast<std::uint64_t>(i));
    for (int pair = 0; pair < 4; pair += 2) {
      F64 first(0), second(0);
      normal_pair(unit_interval(to_real(w.word[pair])), unit_interval(to_real(w.word[pair + 1])),
                  first, second);
      store_column(out, pair, first);
      store_column(out, pair + 1, second);
    }
  }
}

void uniform(double* out, const RandomStream& stream, std::uint64_t group, std::int64_t groups) {
  for (std::int64_t i = 0; i < groups; i += kLanes64, out += 4 * kLanes64) {
    const FourWords w = draw(stream, group + static_cast<std::uint64_t>(i));
    for (int column = 0; column < 4; ++column)
      store_column(out, column, unit_interval(to_real(w.word[column])));
  }
}

}  // namespace

const RandomTable& random_table() {
  static constexpr RandomTable table{kLanes64, normal, uniform};
  return table;
}

}  // namespace alpa::cpu::ALPA_ISA
