#pragma once
/// The two-byte floating types: conversion to float is exact, from float rounds to nearest,
/// ties to even; NaN stays NaN and keeps its sign, values beyond the range become infinity.
/// C++17, usable in device code.
#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define ALPA_HALF_HOST_DEVICE __host__ __device__
#else
#define ALPA_HALF_HOST_DEVICE
#endif

namespace alpa {

/// The upper half of a float: 8 exponent bits, 7 mantissa bits.
struct Bf16 {
  std::uint16_t bits = 0;
};

/// IEEE binary16: 5 exponent bits, 10 mantissa bits.
struct F16 {
  std::uint16_t bits = 0;
};

namespace half {
ALPA_HALF_HOST_DEVICE inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
ALPA_HALF_HOST_DEVICE inline float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
}  // namespace half

ALPA_HALF_HOST_DEVICE inline float to_float(Bf16 x) {
  return half::float_of(static_cast<std::uint32_t>(x.bits) << 16);
}

ALPA_HALF_HOST_DEVICE inline Bf16 to_bf16(float x) {
  const std::uint32_t bits = half::bits_of(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

ALPA_HALF_HOST_DEVICE inline float to_float(F16 x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = x.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // infinity, or NaN (made quiet)
    const std::uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0u;
    return half::float_of(sign | 0x7f800000u | quiet | (magnitude & 0x3ffu) << 13);
  }
  // 2^112 moves the exponent; the product is exact, also for subnormal numbers.
  const float value = half::float_of(magnitude << 13) * half::float_of(0x77800000u);
  return half::float_of(half::bits_of(value) | sign);
}

ALPA_HALF_HOST_DEVICE inline F16 to_f16(float x) {
  const std::uint32_t bits = half::bits_of(x);
  const std::uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  std::uint32_t result;
  if (magnitude > 0x7f800000u)
    result = 0x7e00u | (magnitude >> 13 & 0x3ffu);
  else if (magnitude >= 0x47800000u)
    result = 0x7c00u;                // 65536 and more
  else if (magnitude < 0x38800000u)  // subnormal: adding 1/2 rounds to a multiple of 2^-24
    result = half::bits_of(half::float_of(magnitude) + 0.5f) - 0x3f000000u;
  else
    result = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  return {static_cast<std::uint16_t>(sign | result)};
}

}  // namespace alpa
