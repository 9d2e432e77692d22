#pragma once
/// Blocks of quantised kernels (`Quantization` in alpa/ir/builder.h), as ggml has them: an f16
/// scale, then 32 signed bytes (34 bytes); or a scale and, of 20 bytes, an f16 least number, then
/// the four bits of elements i and i + 16 in a byte, of which 8 is 0 if there is no least number.
#include <algorithm>
#include <cstdint>
#include <iterator>

#include "alpa/base/shape.h"

namespace alpa::kernels {

inline constexpr std::int64_t kBlockElements = 32;
inline constexpr std::int64_t kBlockBytes[] = {34, 18, 20};  ///< by `Quantization`

/// The number of the type whose blocks have so many bytes; -1 if there is none.
inline int quantization(std::int64_t bytes) {
  const auto* const found = std::find(std::begin(kBlockBytes), std::end(kBlockBytes), bytes);
  return found == std::end(kBlockBytes) ? -1 : static_cast<int>(found - kBlockBytes);
}

/// Shape of a kernel [inputs, features] in blocks of type number `type`.
inline Shape quantized_shape(int type, std::int64_t inputs, std::int64_t features) {
  return {features, inputs / kBlockElements, kBlockBytes[type]};
}

/// Whether a tensor is a quantised kernel: parameters of u8 are nothing else.
inline bool is_quantized(const TensorType& type) {
  return type.dtype == DType::u8 && type.rank() == 3 && quantization(type.shape[2]) >= 0;
}

}  // namespace alpa::kernels
