#pragma once
/// What the emulated libraries do with a program's data.
#include <cmath>
#include <cstdint>
#include <cstring>

#include "library_types.h"
#include "src/base/half.h"

namespace alpa::emulation {

/// Element `i` of a tensor of a cudaDataType_t.
inline double read(const void* data, std::int32_t type, std::int64_t i) {
  switch (type) {
    case CUDA_R_32F: return static_cast<const float*>(data)[i];
    case CUDA_R_64F: return static_cast<const double*>(data)[i];
    case CUDA_R_16F: return to_float(static_cast<const F16*>(data)[i]);
    default: return to_float(static_cast<const Bf16*>(data)[i]);
  }
}

inline void write(void* data, std::int32_t type, std::int64_t i, double value) {
  switch (type) {
    case CUDA_R_32F: static_cast<float*>(data)[i] = static_cast<float>(value); break;
    case CUDA_R_64F: static_cast<double*>(data)[i] = value; break;
    case CUDA_R_16F: static_cast<F16*>(data)[i] = to_f16(static_cast<float>(value)); break;
    default: static_cast<Bf16*>(data)[i] = to_bf16(static_cast<float>(value)); break;
  }
}

/// x with the 10 bits of mantissa that TF32 keeps.
inline float round_to_tf32(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  if (std::isfinite(x)) bits = (bits + 0xfffu + ((bits >> 13) & 1u)) & ~0x1fffu;
  std::memcpy(&x, &bits, sizeof bits);
  return x;
}

/// A workspace holds anything after a call.
inline void scribble(void* workspace, std::size_t bytes) {
  constexpr std::size_t head = 1 << 20, tail = 4096;
  if (bytes == 0) return;
  std::memset(workspace, 0xfb, bytes < head ? bytes : head);
  const std::size_t last = bytes < tail ? bytes : tail;
  std::memset(static_cast<char*>(workspace) + bytes - last, 0xfb, last);
}

}  // namespace alpa::emulation
