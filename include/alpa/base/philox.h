#pragma once
/// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
/// 3", SC'11) and what is drawn from it. A number is a function of key and counter alone. C++17, usable in
/// device code.
#include <cmath>
#include <cstdint>

#if defined(__CUDACC__)
#define ALPA_PHILOX_HOST_DEVICE __host__ __device__
#else
#define ALPA_PHILOX_HOST_DEVICE
#endif

namespace alpa {

/// Four random words.
struct Philox4 {
  std::uint32_t word[4];
};

/// The ten rounds on counter (c0, c1, c2, c3) and key (k0, k1).
ALPA_PHILOX_HOST_DEVICE inline Philox4 philox4x32_10(Philox4 counter, std::uint32_t k0, std::uint32_t k1) {
  std::uint32_t c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0, p1 = std::uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
  }
  return {{c0, c1, c2, c3}};
}

/// One sequence of random numbers, addressed by element index.
struct RandomStream {
  std::uint64_t key = 0;
  std::uint32_t step = 0, micro_batch = 0;

  /// Words for elements 4·group … 4·group + 3.
  ALPA_PHILOX_HOST_DEVICE Philox4 words(std::uint64_t group) const {
    const Philox4 counter{
        {static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32), step, micro_batch}};
    return philox4x32_10(counter, static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32));
  }
};

/// The stream of number `stream` under `seed`: the key is seed xor a bijective mix of the number
/// (SplitMix64).
ALPA_PHILOX_HOST_DEVICE inline RandomStream random_stream(std::uint64_t seed, std::uint64_t stream,
                                                          std::int64_t step, std::int64_t micro_batch) {
  std::uint64_t z = stream + 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return {seed ^ z ^ (z >> 31), static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(micro_batch)};
}

/// The word as a number in (0, 1): never an end, so that its logarithm exists.
ALPA_PHILOX_HOST_DEVICE inline double unit_interval(std::uint32_t word) { return (word + 0.5) * 0x1p-32; }

/// Two independent standard normal numbers (Box & Muller 1958), in double.
struct NormalPair {
  double first, second;
};
ALPA_PHILOX_HOST_DEVICE inline NormalPair normal_pair(std::uint32_t a, std::uint32_t b) {
  const double radius = std::sqrt(-2 * std::log(unit_interval(a)));
  const double angle = 6.283185307179586 * unit_interval(b);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

/// Element `index` of the stream, uniform in (0, 1).
ALPA_PHILOX_HOST_DEVICE inline double uniform_at(const RandomStream& stream, std::uint64_t index) {
  return unit_interval(stream.words(index / 4).word[index % 4]);
}

/// Element `index` of the stream, standard normal.
ALPA_PHILOX_HOST_DEVICE inline double normal_at(const RandomStream& stream, std::uint64_t index) {
  const Philox4 words = stream.words(index / 4);
  const int pair = static_cast<int>(index % 4 & 2);
  const NormalPair normal = normal_pair(words.word[pair], words.word[pair + 1]);
  return index % 2 == 0 ? normal.first : normal.second;
}

}  // namespace alpa
