#include "src/base/half.h"

#include <Eigen/Core>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include <doctest/doctest.h>

namespace alpa::half_test {
namespace {

std::uint32_t bits_of(float x) { return half::bits_of(x); }
bool same(float a, float b) { return std::isnan(a) ? std::isnan(b) : bits_of(a) == bits_of(b); }

TEST_CASE(
    "every one of the 65,536 bf16 and f16 values converts to the float Eigen gives, and back to "
    "itself") {
  int wrong = 0;
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float b = to_float(Bf16{bits}), h = to_float(F16{bits});
    wrong += !same(b, static_cast<float>(Eigen::numext::bit_cast<Eigen::bfloat16>(bits)));
    wrong += !same(h, static_cast<float>(Eigen::numext::bit_cast<Eigen::half>(bits)));
    wrong += std::isnan(b) ? !std::isnan(to_float(to_bf16(b))) : to_bf16(b).bits != bits;
    wrong += std::isnan(h) ? !std::isnan(to_float(to_f16(h))) : to_f16(h).bits != bits;
  }
  CHECK(wrong == 0);
}

/// Numbers around every half value: itself, its middle to the next one, and the floats beside both.
TEST_CASE("floats at and beside every rounding boundary round to nearest even as Eigen does") {
  int wrong = 0;
  const auto check = [&](float x) {
    if (std::isnan(x)) return;
    wrong += to_bf16(x).bits != Eigen::numext::bit_cast<std::uint16_t>(Eigen::bfloat16(x));
    wrong += to_f16(x).bits != Eigen::numext::bit_cast<std::uint16_t>(Eigen::half(x));
  };
  for (std::uint32_t i = 0; i < 65536; ++i)
    for (const float x : {to_float(Bf16{static_cast<std::uint16_t>(i)}),
                          to_float(F16{static_cast<std::uint16_t>(i)})})
      for (std::uint32_t middle : {0u, 0x8000u, 0x1000u})
        for (int beside : {-1, 0, 1})
          check(half::float_of(bits_of(x) + middle + static_cast<std::uint32_t>(beside)));
  std::mt19937 random(1);
  for (int i = 0; i < 1000000; ++i) check(half::float_of(static_cast<std::uint32_t>(random())));
  CHECK(wrong == 0);
}

TEST_CASE("NaN stays NaN with its sign, too large numbers become infinity") {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  const float payload = half::float_of(0x7f800001u);  // a NaN whose upper half is that of infinity
  for (float x : {nan, payload}) {
    CHECK(std::isnan(to_float(to_bf16(x))));
    CHECK(std::isnan(to_float(to_f16(x))));
    CHECK(std::signbit(to_float(to_bf16(-x))) == std::signbit(-x));
    CHECK(std::signbit(to_float(to_f16(-x))) == std::signbit(-x));
  }
  CHECK(to_float(to_f16(65519.0f)) == 65504.0f);
  CHECK(to_float(to_f16(65520.0f)) == infinity);
  CHECK(to_float(to_bf16(-std::numeric_limits<float>::max())) == -infinity);
  CHECK(bits_of(to_float(to_f16(-0.0f))) == 0x80000000u);
}

}  // namespace
}  // namespace alpa::half_test
