#pragma once
/// Reads and writes blocks of tensors of any element type as float or double.
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/isa.h"
#include "src/tensor/kernel.h"

namespace alpa::cpu {

template <class T>
bool is_stored_as(DType dtype) {
  return dtype == (sizeof(T) == 8 ? f64 : f32);
}

template <class T>
void load_block(T* out, const std::byte* data, DType dtype, std::int64_t element, std::int64_t n) {
  loops<T>(isa().elementwise)
      .loads[static_cast<int>(dtype)](
          out, data + element * static_cast<std::int64_t>(size_of(dtype)), n);
}

template <class T>
void store_block(std::byte* data, DType dtype, std::int64_t element, const T* in, std::int64_t n) {
  loops<T>(isa().elementwise)
      .stores[static_cast<int>(dtype)](data + element * static_cast<std::int64_t>(size_of(dtype)),
                                       in, n);
}

/// Elements [at, at + n) as T: in place, or converted into the buffer.
template <class T>
const T* read_block(T* buffer, const KernelTensor& x, std::int64_t at, std::int64_t n) {
  if (is_stored_as<T>(x.type.dtype)) return x.as<T>() + at;
  load_block(buffer, x.data, x.type.dtype, at, n);
  return buffer;
}

/// Quotient and remainder of non-negative numbers; most are small, and a 32-bit
/// division is three times faster.
struct Division {
  std::int64_t quotient, remainder;
};
inline Division divide(std::int64_t a, std::int64_t b) {
  if (((a | b) >> 32) != 0) return {a / b, a % b};
  const auto x = static_cast<std::uint32_t>(a), y = static_cast<std::uint32_t>(b);
  return {x / y, x % y};
}

/// A scalar operand.
inline double load_scalar(const KernelTensor& tensor) {
  double value = 0;
  load_block(&value, tensor.data, tensor.type.dtype, 0, 1);
  return value;
}

}  // namespace alpa::cpu
