#pragma once
/// Element types. Storage is little-endian; bf16 and f16 are stored in two
/// bytes and computed in f32.
#include <cstddef>
#include <cstdint>
#include <string_view>
#pragma GCC visibility push(default)

namespace alpa {

/// Element types: floating ones of 4, 2, 2 and 8 bytes, i32, and u8 for masks.
enum class DType : std::uint8_t { f32, bf16, f16, f64, i32, u8 };

/// The element types, for short.
inline constexpr DType f32 = DType::f32, bf16 = DType::bf16, f16 = DType::f16, f64 = DType::f64,
                       i32 = DType::i32, u8 = DType::u8;

/// Every element type.
inline constexpr DType kDTypes[] = {f32, bf16, f16, f64, i32, u8};

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::bf16:
    case DType::f16: return 2;
    case DType::u8: return 1;
  }
  return 0;
}

/// True for f64, f32, bf16, f16: the types that have gradients.
constexpr bool is_floating(DType dtype) { return dtype != DType::i32 && dtype != DType::u8; }

/// True for f64 and i32, whose elements f32 does not hold: kernels compute with them in double.
constexpr bool needs_double(DType dtype) { return dtype == DType::f64 || dtype == DType::i32; }

/// "f32", "bf16", …
std::string_view name_of(DType dtype);

/// Inverse of `name_of`. Throws Error naming the known types.
DType parse_dtype(std::string_view name);

}  // namespace alpa
#pragma GCC visibility pop
