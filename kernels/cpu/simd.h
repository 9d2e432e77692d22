#pragma once
/// Vectors of float and double for *.isa.cc files: the number type of kernels/elementwise.h, as
/// wide as the instruction set this file is compiled for. Everything has internal linkage or lives
/// in namespace ALPA_ISA, so that no two instruction sets share a function.
#include <cstdint>
#include <utility>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define ALPA_INLINE inline __attribute__((always_inline))

namespace alpa::cpu::ALPA_ISA {

#if defined(__AVX512F__)
inline constexpr int kBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kBytes = 32;
#else
inline constexpr int kBytes = 16;
#endif
inline constexpr int kLanes32 = kBytes / 4, kLanes64 = kBytes / 8;

typedef float Float32s __attribute__((vector_size(kBytes)));
typedef std::int32_t Int32s __attribute__((vector_size(kBytes)));
typedef std::uint32_t Word32s __attribute__((vector_size(kBytes)));
typedef double Float64s __attribute__((vector_size(kBytes)));
typedef std::int64_t Int64s __attribute__((vector_size(kBytes)));
typedef float HalfFloat32s
    __attribute__((vector_size(kBytes / 2)));  // as many floats as Float64s has doubles

/// As many small integers as Float32s has floats, or Float64s doubles.
typedef std::uint8_t Byte32s __attribute__((vector_size(kBytes / 4)));
typedef std::uint8_t Byte64s __attribute__((vector_size(kBytes / 8)));
typedef std::uint16_t Short32s __attribute__((vector_size(kBytes / 2)));

/// The vector of type From at x, its lanes converted to those of To.
template <class To, class From>
ALPA_INLINE To load_as(const void* x) {
  From from;
  __builtin_memcpy(&from, x, sizeof from);
  return __builtin_convertvector(from, To);
}
/// Writes x, its lanes converted to those of To.
template <class To, class From>
ALPA_INLINE void store_as(void* out, From x) {
  const To to = __builtin_convertvector(x, To);
  __builtin_memcpy(out, &to, sizeof to);
}

/// True lanes are -1, false lanes 0.
struct Mask32 {
  Int32s v;
};
struct Mask64 {
  Int64s v;
};

/// A vector of numbers with the operators that formulas use. Vector: Float32s or Float64s.
template <class Scalar_, class Vector_, class Mask_, int lanes_>
struct Numbers {
  using Scalar = Scalar_;
  using Vector = Vector_;
  using Mask = Mask_;
  static constexpr int lanes = lanes_;
  Vector v;

  ALPA_INLINE Numbers(Vector vector) : v(vector) {}
  ALPA_INLINE explicit Numbers(Scalar x) : v(x - Vector{}) {}  // x + 0 would change -0
  static ALPA_INLINE Numbers load(const Scalar* from) {
    Vector vector;
    __builtin_memcpy(&vector, from, sizeof vector);
    return vector;
  }
  ALPA_INLINE void store(Scalar* to) const { __builtin_memcpy(to, &v, sizeof v); }

  friend ALPA_INLINE Numbers operator+(Numbers a, Numbers b) { return a.v + b.v; }
  friend ALPA_INLINE Numbers operator-(Numbers a, Numbers b) { return a.v - b.v; }
  friend ALPA_INLINE Numbers operator*(Numbers a, Numbers b) { return a.v * b.v; }
  friend ALPA_INLINE Numbers operator/(Numbers a, Numbers b) { return a.v / b.v; }
  friend ALPA_INLINE Numbers operator-(Numbers a) { return -a.v; }
  friend ALPA_INLINE Mask operator==(Numbers a, Numbers b) { return {a.v == b.v}; }
  friend ALPA_INLINE Mask operator<(Numbers a, Numbers b) { return {a.v < b.v}; }
  friend ALPA_INLINE Mask operator<=(Numbers a, Numbers b) { return {a.v <= b.v}; }
  friend ALPA_INLINE Mask operator>(Numbers a, Numbers b) { return {a.v > b.v}; }
  friend ALPA_INLINE Mask operator>=(Numbers a, Numbers b) { return {a.v >= b.v}; }
  friend ALPA_INLINE Numbers select(Mask m, Numbers a, Numbers b) { return m.v ? a.v : b.v; }

  /// f applied to every lane.
  template <class F>
  ALPA_INLINE Numbers each(F f) const {
    Numbers out = *this;
    for (int i = 0; i < lanes; ++i) out.v[i] = f(v[i]);
    return out;
  }
};

using F32 = Numbers<float, Float32s, Mask32, kLanes32>;
using F64 = Numbers<double, Float64s, Mask64, kLanes64>;

ALPA_INLINE Int32s bits(F32 x) { return reinterpret_cast<Int32s>(x.v); }
ALPA_INLINE F32 from_bits(Int32s x) { return reinterpret_cast<Float32s>(x); }
ALPA_INLINE Int32s broadcast(std::int32_t x) { return Int32s{} + x; }
/// a + b modulo 2^32.
ALPA_INLINE Int32s add_wrapped(Int32s a, Int32s b) {
  return reinterpret_cast<Int32s>(reinterpret_cast<Word32s>(a) + reinterpret_cast<Word32s>(b));
}
ALPA_INLINE Int32s add_wrapped(Int32s a, std::int32_t b) { return add_wrapped(a, broadcast(b)); }
ALPA_INLINE Word32s shift_right(Int32s x, int by) { return reinterpret_cast<Word32s>(x) >> by; }

ALPA_INLINE F32 abs(F32 x) { return from_bits(bits(x) & broadcast(0x7fffffff)); }
ALPA_INLINE F64 abs(F64 x) {
  return reinterpret_cast<Float64s>(reinterpret_cast<Int64s>(x.v) &
                                    (Int64s{} + 0x7fffffffffffffff));
}

ALPA_INLINE F32 sqrt(F32 x) {
  return x.each([](float y) { return __builtin_sqrtf(y); });
}
ALPA_INLINE F64 sqrt(F64 x) {
  return x.each([](double y) { return __builtin_sqrt(y); });
}

/// x to the nearest integer, ties to even; |x| < 2^22.
ALPA_INLINE F32 round_small(F32 x) { return (x + F32(12582912.0f)) - F32(12582912.0f); }

/// The polynomial of x with these coefficients, the highest power's first, by Horner's rule.
template <class... Rest>
ALPA_INLINE F32 polynomial(F32 x, float highest, Rest... rest) {
  F32 p(highest);
  ((p = p * x + F32(rest)), ...);
  return p;
}

#if defined(__AVX512F__)
ALPA_INLINE __m512 native(F32 x) { return reinterpret_cast<__m512>(x.v); }
/// p · 2^⌊n⌋, rounded once.
ALPA_INLINE F32 scale(F32 p, F32 n) {
  return reinterpret_cast<Float32s>(_mm512_maskz_scalef_ps(-1, native(p), native(n)));
}
/// x - ⌊x⌋; 0 for infinities.
ALPA_INLINE F32 fraction(F32 x) {
  constexpr int kDown = 0x09;
  return reinterpret_cast<Float32s>(_mm512_maskz_reduce_ps(-1, native(x), kDown));
}
/// x within [low, high]; NaN stays.
ALPA_INLINE F32 clamp(F32 x, float low, float high) {
  const __m512 below = _mm512_maskz_min_ps(-1, native(F32(high)), native(x));
  return reinterpret_cast<Float32s>(_mm512_maskz_max_ps(-1, native(F32(low)), below));
}
#else
/// 2^n for whole n in [-126, 127].
ALPA_INLINE F32 power_of_two(F32 n) {
  return from_bits((__builtin_convertvector(n.v, Int32s) + 127) << 23);
}
/// In two factors, so that subnormal results and overflow come out right.
ALPA_INLINE F32 scale(F32 p, F32 n) {
  const F32 half = round_small(n * F32(0.5f));
  return p * power_of_two(half) * power_of_two(n - half);
}
ALPA_INLINE F32 clamp(F32 x, float low, float high) {
  x = select(x > F32(high), F32(high), x);
  return select(x < F32(low), F32(low), x);
}
#endif

/// e^r for |r| <= ln(2)/2: relative error below 2^-24 before rounding (the
/// coefficients of Cephes' expf).
ALPA_INLINE F32 exp_reduced(F32 r) {
  const F32 p = polynomial(r, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                           4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f);
  return p * (r * r) + r + F32(1.0f);
}

/// e^x = 2^n e^r. NaN stays NaN.
ALPA_INLINE F32 exp(F32 x) {
  x = clamp(x, -104.0f, 89.0f);
  const F32 n = round_small(x * F32(1.44269504088896341f));
  const F32 r = (x - n * F32(0.693359375f)) + n * F32(2.12194440e-4f);
  return scale(exp_reduced(r), n);
}

/// 2^r for 0 <= r <= 1, 1 at 0: relative error below 2^-28 before rounding.
ALPA_INLINE F32 exp2_reduced(F32 r) {
  return polynomial(r, 2.16129159441e-4f, 1.24678461739e-3f, 9.67545159359e-3f, 5.54852806079e-2f,
                    2.40229305554e-1f, 6.93147044443e-1f, 1.0f);
}

/// 2^x. NaN stays NaN.
ALPA_INLINE F32 exp2(F32 x) {
#if defined(__AVX512F__)
  return scale(exp2_reduced(fraction(x)), x);
#else
  x = clamp(x, -151.0f, 128.5f);
  const F32 n = round_small(x - F32(0.5f));
  return scale(exp2_reduced(x - n), n);
#endif
}

/// log(1 + f) for sqrt(1/2) - 1 <= f <= sqrt(2) - 1, without the terms f - f²/2 (Cephes' logf).
ALPA_INLINE F32 log1p_tail(F32 f) {
  const F32 p = polynomial(f, 7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f,
                           -1.2420140846e-1f, 1.4249322787e-1f, -1.6668057665e-1f, 2.0000714765e-1f,
                           -2.4999993993e-1f, 3.3333331174e-1f);
  return p * f * (f * f);
}

ALPA_INLINE F32 log(F32 x) {
  const Mask32 subnormal = x < F32(1.17549435e-38f);
  const F32 scaled = select(subnormal, x * F32(8388608.0f), x);
  // Mantissa in [sqrt(1/2), sqrt(2)), exponent e.
  const Int32s shifted = add_wrapped(bits(scaled), -0x3f3504f3);
  const F32 e = F32(__builtin_convertvector(shifted >> 23, Float32s)) -
                select(subnormal, F32(23.0f), F32(0.0f));
  const F32 f = from_bits((shifted & 0x007fffff) + 0x3f3504f3) - F32(1.0f);
  F32 y = log1p_tail(f) + e * F32(-2.12194440e-4f) - F32(0.5f) * (f * f);
  y = f + y + e * F32(0.693359375f);
  const F32 infinity(__builtin_inff());
  y = select(x < infinity, y, x);  // infinity and NaN
  y = select(x == F32(0.0f), -infinity, y);
  return select(x < F32(0.0f), F32(__builtin_nanf("")), y);
}

/// Odd polynomial near 0, 1 - 2 / (e^2|x| + 1) beyond (Cephes' tanhf).
ALPA_INLINE F32 tanh(F32 x) {
  const F32 a = abs(x), s = x * x;
  const F32 p = polynomial(s, -5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                           1.33314422036e-1f, -3.33332819422e-1f);
  const F32 small = p * s * x + x;
  const F32 large = F32(1.0f) - F32(2.0f) / (exp(a + a) + F32(1.0f));
  return select(a < F32(0.625f), small, select(x < F32(0.0f), -large, large));
}

ALPA_INLINE F32 pow(F32 a, F32 b) {
  F32 out = a;
  for (int i = 0; i < kLanes32; ++i) out.v[i] = __builtin_powf(a.v[i], b.v[i]);
  return out;
}
ALPA_INLINE F64 pow(F64 a, F64 b) {
  F64 out = a;
  for (int i = 0; i < kLanes64; ++i) out.v[i] = __builtin_pow(a.v[i], b.v[i]);
  return out;
}
ALPA_INLINE F64 exp(F64 x) {
  return x.each([](double y) { return __builtin_exp(y); });
}
ALPA_INLINE F64 exp2(F64 x) {
  return x.each([](double y) { return __builtin_exp2(y); });
}
ALPA_INLINE F64 log(F64 x) {
  return x.each([](double y) { return __builtin_log(y); });
}
ALPA_INLINE F64 tanh(F64 x) {
  return x.each([](double y) { return __builtin_tanh(y); });
}

/// A polynomial near 0, 1 - e^-p(|x|) beyond (N. Juffa's erff).
ALPA_INLINE F32 erf(F32 x) {
  const F32 a = abs(x), s = x * x;
  const F32 p = polynomial(s, -5.96761703e-4f, 4.99119423e-3f, -2.67681349e-2f, 1.12819925e-1f,
                           -3.76125336e-1f, 1.28379166e-1f);
  const F32 small = p * x + x;
  F32 q = F32(-1.72853470e-5f) * a + F32(3.83197126e-4f);
  q = q * s + (F32(-3.88396438e-3f) * a + F32(2.42546219e-2f));
  q = q * a + F32(-1.06777877e-1f);
  q = q * a + F32(-6.34846687e-1f);
  q = q * a + F32(-1.28717512e-1f);
  const F32 large = F32(1.0f) - exp(q * a - a);
  return select(a <= F32(0.921875f), small, select(x < F32(0.0f), -large, large));
}
ALPA_INLINE F64 erf(F64 x) {
  return x.each([](double y) { return __builtin_erf(y); });
}
ALPA_INLINE F32 sin(F32 x) {
  return x.each([](float y) { return __builtin_sinf(y); });
}
ALPA_INLINE F64 sin(F64 x) {
  return x.each([](double y) { return __builtin_sin(y); });
}
ALPA_INLINE F32 cos(F32 x) {
  return x.each([](float y) { return __builtin_cosf(y); });
}
ALPA_INLINE F64 cos(F64 x) {
  return x.each([](double y) { return __builtin_cos(y); });
}
ALPA_INLINE F32 floor(F32 x) {
  return x.each([](float y) { return __builtin_floorf(y); });
}
ALPA_INLINE F64 floor(F64 x) {
  return x.each([](double y) { return __builtin_floor(y); });
}

/// The lanes added up in pairs.
ALPA_INLINE double total(F64 x) {
  for (int width = F64::lanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) x.v[i] += x.v[i + width];
  return x.v[0];
}

/// Lanes of a and b in turn: of their lower halves, and of their upper ones.
template <class V, int... i>
ALPA_INLINE void interleave(typename V::Vector& low, typename V::Vector& high, typename V::Vector a,
                            typename V::Vector b, std::integer_sequence<int, i...>) {
  constexpr int half = V::lanes / 2;
  low = __builtin_shufflevector(a, b, (i % 2 * V::lanes + i / 2)...);
  high = __builtin_shufflevector(a, b, (i % 2 * V::lanes + i / 2 + half)...);
}

// Changes of width: where the compilers' own conversions of whole vectors go through halves, and
// are often needed, the instructions are named.

/// F64::lanes floats as doubles.
ALPA_INLINE F64 load_wide(const float* x) {
#if defined(__AVX512F__)
  return reinterpret_cast<Float64s>(_mm512_maskz_cvtps_pd(-1, _mm256_loadu_ps(x)));
#elif defined(__AVX2__)
  return reinterpret_cast<Float64s>(_mm256_cvtps_pd(_mm_loadu_ps(x)));
#else
  return load_as<Float64s, HalfFloat32s>(x);
#endif
}
ALPA_INLINE F64 load_wide(const double* x) { return F64::load(x); }

/// Rounds to floats.
ALPA_INLINE void store_narrow(float* out, F64 x) { store_as<HalfFloat32s>(out, x.v); }

/// kLanes32 bytes as integers.
ALPA_INLINE Int32s load_bytes(const void* x) {
#if defined(__AVX512F__)
  return reinterpret_cast<Int32s>(
      _mm512_maskz_cvtepu8_epi32(-1, _mm_loadu_si128(static_cast<const __m128i*>(x))));
#elif defined(__AVX2__)
  return reinterpret_cast<Int32s>(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(x))));
#else
  return load_as<Int32s, Byte32s>(x);
#endif
}

/// Integers from 0 to 255 as bytes.
ALPA_INLINE void store_bytes(void* out, Int32s x) {
#if defined(__AVX512F__)
  _mm_storeu_si128(static_cast<__m128i*>(out),
                   _mm512_maskz_cvtepi32_epi8(-1, reinterpret_cast<__m512i>(x)));
#elif defined(__AVX2__)
  const __m256i wide = reinterpret_cast<__m256i>(x);
  const __m128i words =
      _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
  _mm_storel_epi64(static_cast<__m128i*>(out), _mm_packus_epi16(words, words));
#else
  store_as<Byte32s>(out, x);
#endif
}

/// As many integers as a vector has doubles.
typedef std::int32_t HalfInt32s __attribute__((vector_size(kBytes / 2)));

/// kLanes64 bytes as integers.
ALPA_INLINE HalfInt32s load_few_bytes(const void* x) { return load_as<HalfInt32s, Byte64s>(x); }

/// Integers from 0 to 255 as bytes.
ALPA_INLINE void store_few_bytes(void* out, HalfInt32s x) { store_as<Byte64s>(out, x); }

ALPA_INLINE F64 to_f64(HalfInt32s x) {
#if defined(__AVX512F__)
  return reinterpret_cast<Float64s>(_mm512_maskz_cvtepi32_pd(-1, reinterpret_cast<__m256i>(x)));
#elif defined(__AVX2__)
  return reinterpret_cast<Float64s>(_mm256_cvtepi32_pd(reinterpret_cast<__m128i>(x)));
#else
  return __builtin_convertvector(x, Float64s);
#endif
}

/// Numbers in the range of integers, towards zero.
ALPA_INLINE HalfInt32s to_i32(F64 x) { return __builtin_convertvector(x.v, HalfInt32s); }

/// kLanes32 words of 16 bits as integers.
ALPA_INLINE Int32s load_words(const void* x) {
#if defined(__AVX512F__)
  return reinterpret_cast<Int32s>(
      _mm512_maskz_cvtepu16_epi32(-1, _mm256_loadu_si256(static_cast<const __m256i*>(x))));
#elif defined(__AVX2__)
  return reinterpret_cast<Int32s>(
      _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(x))));
#else
  return load_as<Int32s, Short32s>(x);
#endif
}

/// The lower 16 bits of each; the upper ones are 0.
ALPA_INLINE void store_words(void* out, Int32s x) {
#if defined(__AVX512F__)
  _mm256_storeu_si256(static_cast<__m256i*>(out),
                      _mm512_maskz_cvtepi32_epi16(-1, reinterpret_cast<__m512i>(x)));
#elif defined(__AVX2__)
  const __m256i packed =
      _mm256_packus_epi32(reinterpret_cast<__m256i>(x), reinterpret_cast<__m256i>(x));
  _mm_storeu_si128(static_cast<__m128i*>(out),
                   _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08)));
#else
  store_as<Short32s>(out, x);
#endif
}

/// Bits of the nearest bf16, as in alpa/base/half.h, in the lower half of each word.
ALPA_INLINE Int32s bf16_bits(F32 x) {
  const Int32s b = bits(x);
  const Int32s rounded = add_wrapped(b, 0x7fff + ((b >> 16) & 1));
  const Int32s chosen = (b & 0x7fffffff) > 0x7f800000 ? (b | 0x400000) : rounded;
  return reinterpret_cast<Int32s>(shift_right(chosen, 16));
}

/// Bits of the nearest f16, as in alpa/base/half.h.
ALPA_INLINE Int32s f16_bits(F32 x) {
  const Int32s b = bits(x), magnitude = b & 0x7fffffff;
  const Int32s sign = reinterpret_cast<Int32s>(shift_right(b, 16)) & 0x8000;
  const Int32s normal = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  const Int32s subnormal = bits(from_bits(magnitude) + F32(0.5f)) - 0x3f000000;
  const Int32s nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  Int32s result = magnitude < 0x38800000 ? subnormal : normal;
  result = magnitude >= 0x47800000 ? broadcast(0x7c00) : result;
  return sign | (magnitude > 0x7f800000 ? nan : result);
}

ALPA_INLINE F32 from_bf16_bits(Int32s x) { return from_bits(x << 16); }

ALPA_INLINE F32 from_f16_bits(Int32s x) {
  const Int32s magnitude = x & 0x7fff, sign = (x & 0x8000) << 16;
  const Int32s finite = bits(from_bits(magnitude << 13) * from_bits(broadcast(0x77800000)));
  const Int32s quiet = magnitude > 0x7c00 ? broadcast(0x400000) : broadcast(0);
  const Int32s special = 0x7f800000 | quiet | ((magnitude & 0x3ff) << 13);
  return from_bits(sign | (magnitude >= 0x7c00 ? special : finite));
}

/// Elements of 16 bits as they are stored.
struct Bf16Bits {
  std::uint16_t bits;
};
struct F16Bits {
  std::uint16_t bits;
};
template <class S>
ALPA_INLINE F32 widen_half(Int32s raw) {
  return __is_same(S, Bf16Bits) ? from_bf16_bits(raw) : from_f16_bits(raw);
}
/// kLanes32 of them from `in` on.
template <class S>
ALPA_INLINE F32 widen_half(const void* in) {
  return widen_half<S>(load_words(in));
}

ALPA_INLINE F32 round_to_f32(F32 x) { return x; }
ALPA_INLINE F64 round_to_f32(F64 x) {
  return __builtin_convertvector(__builtin_convertvector(x.v, HalfFloat32s), Float64s);
}
ALPA_INLINE F32 round_to_bf16(F32 x) { return from_bf16_bits(bf16_bits(x)); }
ALPA_INLINE F32 round_to_f16(F32 x) { return from_f16_bits(f16_bits(x)); }

template <class Round>
ALPA_INLINE F64 through_f32(F64 x, Round round) {
  float lanes[kLanes32] = {};
  for (int i = 0; i < kLanes64; ++i) lanes[i] = static_cast<float>(x.v[i]);
  const F32 rounded = round(F32::load(lanes));
  F64 out = x;
  for (int i = 0; i < kLanes64; ++i) out.v[i] = rounded.v[i];
  return out;
}
ALPA_INLINE F64 round_to_bf16(F64 x) {
  return through_f32(x, [](F32 y) { return round_to_bf16(y); });
}
ALPA_INLINE F64 round_to_f16(F64 x) {
  return through_f32(x, [](F32 y) { return round_to_f16(y); });
}

/// Towards zero within [low, high], a range of 32-bit integers; NaN gives 0.
template <class T>
ALPA_INLINE T truncate(T x, typename T::Scalar low, typename T::Scalar high) {
  x = select(x < T(low), T(low), select(x > T(high), T(high), x));
  x = select(x == x, x, T(0));
  if constexpr (sizeof(typename T::Scalar) == 4)  // from 2^23 on every float is whole
    return select(abs(x) < T(8388608.0f),
                  T(__builtin_convertvector(__builtin_convertvector(x.v, Int32s), Float32s)), x);
  else
    return to_f64(to_i32(x));
}
template <class T>
ALPA_INLINE T round_to_i32(T x) {
  return truncate(x, -2147483648.0, 2147483647.0);
}
template <class T>
ALPA_INLINE T round_to_u8(T x) {
  return truncate(x, 0, 255);
}

}  // namespace alpa::cpu::ALPA_ISA
