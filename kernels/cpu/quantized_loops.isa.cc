// kernels/cpu/quantized_loops.isa.cc — blocks of quantised kernels, per instruction set
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

namespace alpa::cpu::ALPA_ISA {
namespace {

constexpr int kOfBlock = 32;                          ///< of a block
constexpr int kBlockVectors = kOfBlock / F32::lanes;  ///< of a block
constexpr int kRowsAtOnce = 4;  ///< rows that are multiplied with a block at once
typedef std::int8_t Signed32s __attribute__((vector_size(kBytes / 4)));

/// The f16 number at `x`, in every lane.
ALPA_INLINE Float32s half_at(const std::byte* x) {
  std::uint16_t bits;
  __builtin_memcpy(&bits, x, sizeof bits);
#if defined(__F16C__)
  return Float32s{} + _cvtsh_ss(bits);
#else
  return widen_half<F16Bits>(broadcast(bits)).v;
#endif
}

/// As many bytes as F32 has lanes, each as an integer. Without these instructions by name, GCC 12
/// makes code that takes three to five times as long.
ALPA_INLINE Int32s bytes_at(const std::byte* x, bool with_sign) {
#if defined(__AVX512F__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  return reinterpret_cast<Int32s>(with_sign ? _mm512_cvtepi8_epi32(bytes)
                                            : _mm512_cvtepu8_epi32(bytes));
#elif defined(__AVX2__)
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
  return reinterpret_cast<Int32s>(with_sign ? _mm256_cvtepi8_epi32(bytes)
                                            : _mm256_cvtepu8_epi32(bytes));
#else
  return with_sign ? load_as<Int32s, Signed32s>(x) : load_as<Int32s, Byte32s>(x);
#endif
}

/// The elements of a block of so many bytes.
template <int bytes>
ALPA_INLINE void decode_block(Float32s* to, const std::byte* block) {
  const Float32s scale = half_at(block);
  if constexpr (bytes == 34) {
    for (int v = 0; v < kBlockVectors; ++v)
      to[v] = __builtin_convertvector(bytes_at(block + 2 + v * F32::lanes, true), Float32s) * scale;
  } else {
    const Float32s least = bytes == 20 ? half_at(block + 2) : scale * -8.0F;
    const std::byte* const bits = block + bytes - kOfBlock / 2;
    for (int v = 0; v < kBlockVectors; ++v) {
      const bool low = v < kBlockVectors / 2;
      const Int32s pairs = bytes_at(bits + (low ? v : v - kBlockVectors / 2) * F32::lanes, false);
      to[v] = __builtin_convertvector(low ? pairs & 15 : pairs >> 4, Float32s) * scale + least;
    }
  }
}

template <int bytes>
void decode(float* to, const std::byte* blocks, std::int64_t n) {
  for (std::int64_t b = 0; b < n; ++b) {
    Float32s elements[kBlockVectors];
    decode_block<bytes>(elements, blocks + b * bytes);
    for (int v = 0; v < kBlockVectors; ++v)
      F32(elements[v]).store(to + b * kOfBlock + v * F32::lanes);
  }
}

/// Results of `rows` rows, from `row` on, of a feature whose blocks begin at `kernel`.
template <int bytes, int rows>
void multiply(const QuantizedProduct& p, const std::byte* kernel, std::int64_t row, float* y) {
  constexpr int kWays = 2;  // sums that do not wait for each other
  const std::int64_t terms = p.blocks * kOfBlock;
  const float* const x = p.x + row * terms;
  Float32s sums[rows][kWays] = {};
  for (std::int64_t b = 0; b < p.blocks; ++b) {
    Float32s elements[kBlockVectors];
    decode_block<bytes>(elements, kernel + b * bytes);
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < kBlockVectors; ++v)
        sums[r][v % kWays] +=
            F32::load(x + r * terms + b * kOfBlock + v * F32::lanes).v * elements[v];
  }
  for (int r = 0; r < rows; ++r) {
    float sum = 0;
    const Float32s both = sums[r][0] + sums[r][1];
    for (int lane = 0; lane < F32::lanes; ++lane) sum += both[lane];
    y[(row + r) * p.y_row] = sum;
  }
}

template <int bytes>
void multiply_rows(const QuantizedProduct& p) {
  for (std::int64_t j = 0; j < p.features; ++j) {
    const std::byte* const kernel = p.kernel + j * p.blocks * bytes;
    std::int64_t row = 0;
    for (; row + kRowsAtOnce <= p.rows; row += kRowsAtOnce)
      multiply<bytes, kRowsAtOnce>(p, kernel, row, p.y + j);
    for (; row < p.rows; ++row) multiply<bytes, 1>(p, kernel, row, p.y + j);
  }
}

}  // namespace

const QuantizedTable& quantized_table() {
  static constexpr QuantizedTable table{{{decode<34>, multiply_rows<34>},
                                         {decode<18>, multiply_rows<18>},
                                         {decode<20>, multiply_rows<20>}}};
  return table;
}

}  // namespace alpa::cpu::ALPA_ISA
