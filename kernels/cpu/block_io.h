#pragma once
/// Reads and writes blocks of tensors of any element type as float or double.
#include <algorithm>
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

/// Up to `kSize` elements of a tensor as T: in place, or converted into the buffer.
template <class T>
class Block {
 public:
  static constexpr std::int64_t kSize = 1024;

  const T* read(const KernelTensor& x, std::int64_t at, std::int64_t n) {
    return read_block(buffer_, x, at, n);
  }
  /// Where to write elements from `at` on; `written` brings them there.
  T* target(const KernelTensor& y, std::int64_t at) {
    return is_stored_as<T>(y.type.dtype) ? y.as<T>() + at : buffer_;
  }
  void written(const KernelTensor& y, std::int64_t at, std::int64_t n) {
    if (!is_stored_as<T>(y.type.dtype)) store_block(y.data, y.type.dtype, at, buffer_, n);
  }

 private:
  T buffer_[kSize];
};

/// visit(first, n) for the blocks of [0, width).
template <class Visit>
void for_blocks(std::int64_t width, const Visit& visit) {
  for (std::int64_t i = 0; i < width; i += Block<float>::kSize)
    visit(i, std::min(Block<float>::kSize, width - i));
}

/// One element.
inline double element(const KernelTensor& x, std::int64_t at) {
  double value = 0;
  load_block(&value, x.data, x.type.dtype, at, 1);
  return value;
}
inline void put_element(const KernelTensor& y, std::int64_t at, double value) {
  store_block(y.data, y.type.dtype, at, &value, 1);
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

/// Runs a call in the type of computation: double for f64, else float.
template <void (*in_float)(const KernelCall&), void (*in_double)(const KernelCall&)>
void run_floating(const KernelCall& call) {
  (call.outputs[0].type.dtype == f64 ? in_double : in_float)(call);
}

/// A scalar operand.
inline double load_scalar(const KernelTensor& tensor) { return element(tensor, 0); }

}  // namespace alpa::cpu
