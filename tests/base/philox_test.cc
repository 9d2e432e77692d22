#include "src/base/philox.h"

#include <cmath>
#include <cstdint>
#include <set>

#include <doctest/doctest.h>

namespace alpa::philox_test {
namespace {

void check_words(Philox4 counter, std::uint32_t k0, std::uint32_t k1, Philox4 expected) {
  const Philox4 words = philox4x32_10(counter, k0, k1);
  for (int i = 0; i < 4; ++i) CHECK(words.word[i] == expected.word[i]);
}

// kat_vectors of Random123 1.14, lines "philox4x32 10".
TEST_CASE("Philox4x32-10 gives the known answers of Random123") {
  check_words({{0, 0, 0, 0}}, 0, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  check_words({{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, 0xffffffff, 0xffffffff,
              {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  check_words({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0,
              {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

TEST_CASE("normal pairs are the Box-Muller transform of libm to 1e-13") {
  for (std::uint32_t i = 0; i < 100000; ++i) {
    const std::uint32_t a = i * 2654435761u, b = i * 40503u * 65537u;
    const double u = unit_interval<double>(a), v = unit_interval<double>(b);
    double first = 0, second = 0;
    normal_pair(u, v, first, second);
    const double radius = std::sqrt(-2 * std::log(u));
    REQUIRE(std::abs(first - radius * std::cos(2 * M_PI * v)) < 1e-13 * (1 + radius));
    REQUIRE(std::abs(second - radius * std::sin(2 * M_PI * v)) < 1e-13 * (1 + radius));
  }
}

TEST_CASE("the extreme words give finite numbers inside (0, 1)") {
  for (std::uint32_t word : {0u, 1u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
    const double u = unit_interval<double>(word);
    CHECK(u > 0);
    CHECK(u < 1);
    double first = 0, second = 0;
    normal_pair(u, u, first, second);
    CHECK(std::isfinite(first));
    CHECK(std::isfinite(second));
  }
}

TEST_CASE("streams of different number, seed, step or micro-batch share no words") {
  std::set<std::uint64_t> seen;
  int drawn = 0;
  for (std::uint64_t seed : {0, 1})
    for (std::uint64_t stream : {0, 1, 2})
      for (std::int64_t step : {0, 1})
        for (std::int64_t micro_batch : {0, 1})
          for (std::uint64_t group = 0; group < 10; ++group, ++drawn) {
            const Philox4 w = random_words(random_stream(seed, stream, step, micro_batch), group);
            seen.insert(std::uint64_t{w.word[0]} << 32 | w.word[1]);
          }
  CHECK(static_cast<int>(seen.size()) == drawn);
}

}  // namespace
}  // namespace alpa::philox_test
