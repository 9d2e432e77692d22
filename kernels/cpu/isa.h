#pragma once
/// The inner loops of the CPU kernels, compiled once per instruction set (files *.isa.cc) and chosen once
/// at start. Raw pointers and counts only: these files instantiate no inline function of another header.
#include <cstddef>
#include <cstdint>

namespace alpa::cpu {

/// Longest vector of any instruction set, in bytes: alignment and padding of every scratch buffer.
inline constexpr int kVectorBytes = 64;

/// An operand of a step: `step` is 1 for an array and 0 for one vector of equal elements.
template <class T>
struct StepOperand {
  const T* data = nullptr;
  std::ptrdiff_t step = 0;
};

/// Applies a formula to n elements; n is a multiple of `IsaTable::lanes`.
template <class T>
using StepFunction = void (*)(T* out, StepOperand<T> a, StepOperand<T> b, StepOperand<T> c, std::int64_t n);

/// Converts any n elements of a dtype to T, or back (to nearest even; integers towards zero, saturated).
template <class T>
using LoadFunction = void (*)(T* out, const std::byte* in, std::int64_t n);
template <class T>
using StoreFunction = void (*)(std::byte* out, const T* in, std::int64_t n);

/// The loops for one compute type; tables are indexed by code of kernels/elementwise.h and by DType.
template <class T>
struct IsaLoops {
  std::int64_t lanes = 0;
  const StepFunction<T>* steps = nullptr;
  const LoadFunction<T>* loads = nullptr;
  const StoreFunction<T>* stores = nullptr;
};

struct IsaTable {
  const char* name = nullptr;
  IsaLoops<float> f32;
  IsaLoops<double> f64;
  /// Copies whole vectors past the caches; `out` is aligned to kVectorBytes, n a multiple of kVectorBytes.
  void (*stream)(std::byte* out, const std::byte* in, std::int64_t n) = nullptr;
};

namespace baseline {
const IsaTable& table();
}
#if defined(__x86_64__)
namespace avx2 {
const IsaTable& table();
}
namespace avx512 {
const IsaTable& table();
}
#endif

/// The best table this processor runs.
const IsaTable& isa();

template <class T>
const IsaLoops<T>& loops();
template <>
inline const IsaLoops<float>& loops<float>() {
  return isa().f32;
}
template <>
inline const IsaLoops<double>& loops<double>() {
  return isa().f64;
}

}  // namespace alpa::cpu
