#pragma once
/// The types that store elements, and their conversion from and to double: to nearest even,
/// integers towards zero.
#include <cstdint>
#include <type_traits>

#include "src/base/half.h"

namespace alpa {

template <class To>
To from_double(double value) {
  if constexpr (std::is_same_v<To, Bf16>)
    return to_bf16(static_cast<float>(value));
  else if constexpr (std::is_same_v<To, F16>)
    return to_f16(static_cast<float>(value));
  else
    return static_cast<To>(value);
}

template <class From>
double to_double(From value) {
  if constexpr (std::is_same_v<From, Bf16> || std::is_same_v<From, F16>)
    return to_float(value);
  else
    return static_cast<double>(value);
}

/// Calls `visit` with a zero of the type that stores `dtype`.
template <class Visitor>
void with_storage_type(DType dtype, Visitor&& visit) {
  switch (dtype) {
    case DType::f32: return visit(float{});
    case DType::bf16: return visit(Bf16{});
    case DType::f16: return visit(F16{});
    case DType::f64: return visit(double{});
    case DType::i32: return visit(std::int32_t{});
    case DType::u8: return visit(std::uint8_t{});
  }
}

}  // namespace alpa
