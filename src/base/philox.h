#pragma once
/// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
/// 1, 2, 3", SC'11), and uniform and normal numbers from it. A number is a function of key and
/// counter alone. C++17, usable in device code; templates take scalars or a backend's vectors. All
/// operations are rounded exactly by IEEE 754, so every backend draws the same bits, if its
/// compiler does not contract a·b + c.
#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define ALPA_PHILOX_HOST_DEVICE __host__ __device__
#else
#define ALPA_PHILOX_HOST_DEVICE
#endif

namespace alpa {

/// The ten rounds. `W` is a 64-bit unsigned integer, or a vector of them; c0 … c3 hold 32-bit
/// words and become the result.
template <class W>
ALPA_PHILOX_HOST_DEVICE inline void philox_rounds(W& c0, W& c1, W& c2, W& c3, std::uint32_t k0,
                                                  std::uint32_t k1) {
  const std::uint64_t low = 0xffffffffu;
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    const W p0 = c0 * std::uint64_t{0xD2511F53u}, p1 = c2 * std::uint64_t{0xCD9E8D57u};
    c0 = (p1 >> 32) ^ c1 ^ std::uint64_t{k0};
    c2 = (p0 >> 32) ^ c3 ^ std::uint64_t{k1};
    c1 = p1 & low;
    c3 = p0 & low;
  }
}

/// Four random words.
struct Philox4 {
  std::uint32_t word[4];
};

/// Philox4x32-10 of a counter under the key (k0, k1).
ALPA_PHILOX_HOST_DEVICE inline Philox4 philox4x32_10(Philox4 counter, std::uint32_t k0,
                                                     std::uint32_t k1) {
  std::uint64_t c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2],
                c3 = counter.word[3];
  philox_rounds(c0, c1, c2, c3, k0, k1);
  return {{static_cast<std::uint32_t>(c0), static_cast<std::uint32_t>(c1),
           static_cast<std::uint32_t>(c2), static_cast<std::uint32_t>(c3)}};
}

/// One sequence of random numbers, addressed by element index: elements 4·group … 4·group + 3 come
/// from the counter (group's lower and upper word, step, micro_batch).
struct RandomStream {
  std::uint64_t key = 0;
  std::uint32_t step = 0, micro_batch = 0;
};

/// The stream of number `stream` under `seed`: the key is seed xor a bijective mix
/// of the number (SplitMix64).
ALPA_PHILOX_HOST_DEVICE inline RandomStream random_stream(std::uint64_t seed, std::uint64_t stream,
                                                          std::int64_t step,
                                                          std::int64_t micro_batch) {
  std::uint64_t z = stream + 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return {seed ^ z ^ (z >> 31), static_cast<std::uint32_t>(step),
          static_cast<std::uint32_t>(micro_batch)};
}

ALPA_PHILOX_HOST_DEVICE inline Philox4 random_words(const RandomStream& stream,
                                                    std::uint64_t group) {
  const Philox4 counter{{static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32),
                         stream.step, stream.micro_batch}};
  return philox4x32_10(counter, static_cast<std::uint32_t>(stream.key),
                       static_cast<std::uint32_t>(stream.key >> 32));
}

/// A word as a number in (0, 1): never an end, so that its logarithm exists. `T` is
/// double or a vector of doubles.
template <class T>
ALPA_PHILOX_HOST_DEVICE inline T unit_interval(T word) {
  return (word + T(0.5)) * T(2.3283064365386963e-10);
}

/// x = mantissa · 2^exponent, mantissa in [sqrt(1/2), sqrt(2)).
ALPA_PHILOX_HOST_DEVICE inline void split(double x, double& mantissa, double& exponent) {
  std::int64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  bits -= 0x3fe6a09e667f3bcd;
  exponent = static_cast<double>(bits >> 52);
  bits = (bits & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd;
  std::memcpy(&mantissa, &bits, sizeof bits);
}

namespace philox {

template <class T>
ALPA_PHILOX_HOST_DEVICE inline T select(bool mask, T a, T b) {
  return mask ? a : b;
}

/// Natural logarithm of x in (0, 1) to 1e-15: 2 artanh((m - 1) / (m + 1)) + e ln 2.
template <class T>
ALPA_PHILOX_HOST_DEVICE inline T log_of_unit(T x) {
  T m(0), e(0);
  split(x, m, e);
  const T s = (m - T(1)) / (m + T(1)), z = s * s;
  T p(1.0 / 19);
  p = p * z + T(1.0 / 17);
  p = p * z + T(1.0 / 15);
  p = p * z + T(1.0 / 13);
  p = p * z + T(1.0 / 11);
  p = p * z + T(1.0 / 9);
  p = p * z + T(1.0 / 7);
  p = p * z + T(1.0 / 5);
  p = p * z + T(1.0 / 3);
  return e * T(0.6931471805599453) + T(2) * (s + s * z * p);
}

/// sin t and cos t for |t| <= pi/4 by their Taylor series, to 1e-14.
template <class T>
ALPA_PHILOX_HOST_DEVICE inline T sine(T t, T z) {
  T p(1.0 / 6227020800);
  p = p * z + T(-1.0 / 39916800);
  p = p * z + T(1.0 / 362880);
  p = p * z + T(-1.0 / 5040);
  p = p * z + T(1.0 / 120);
  p = p * z + T(-1.0 / 6);
  return t + t * z * p;
}
template <class T>
ALPA_PHILOX_HOST_DEVICE inline T cosine(T z) {
  T p(-1.0 / 87178291200);
  p = p * z + T(1.0 / 479001600);
  p = p * z + T(-1.0 / 3628800);
  p = p * z + T(1.0 / 40320);
  p = p * z + T(-1.0 / 720);
  p = p * z + T(1.0 / 24);
  p = p * z + T(-0.5);
  return T(1) + z * p;
}

}  // namespace philox

/// Two independent standard normal numbers from two of `unit_interval` (Box & Muller 1958): sqrt(-2
/// ln u) times the cosine and the sine of 2 pi v.
template <class T>
ALPA_PHILOX_HOST_DEVICE inline void normal_pair(T u, T v, T& first, T& second) {
  using philox::select;
  using std::sqrt;
  const T radius = sqrt(T(-2) * philox::log_of_unit(u));
  const T magic(6755399441055744.0);  // adding and subtracting it rounds to a whole number
  const T quarter = (v * T(4) + magic) - magic;
  const T t = (v - quarter * T(0.25)) * T(6.283185307179586), z = t * t;
  const T s = philox::sine(t, z), c = philox::cosine(z);
  const T x =
      select(quarter == T(1), -s, select(quarter == T(2), -c, select(quarter == T(3), s, c)));
  const T y =
      select(quarter == T(1), c, select(quarter == T(2), -s, select(quarter == T(3), -c, s)));
  first = radius * x;
  second = radius * y;
}

}  // namespace alpa
