#pragma once
/// Element types of GGUF files (github.com/ggml-org/ggml): blocks of quantised numbers with their
/// scales.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "alpa/tensor/array.h"

namespace alpa {

/// An element type of the format.
struct GgufElement {
  std::uint32_t number;                               ///< in files
  const char* name;                                   ///< ggml's
  std::int64_t elements, bytes;                       ///< of a block
  DType read_as;                                      ///< its type in alpa
  void (*decode)(const std::byte* block, float* to);  ///< null: elements are stored as read
  void (*encode)(const float* from, std::byte* block) = nullptr;  ///< null: is not written
};

/// The type of this number or name; null if alpa does not read it.
const GgufElement* gguf_type(std::uint32_t number);
const GgufElement* gguf_type(std::string_view name);

/// Elements of type f32 as the file holds them: F32, F16, Q8_0, Q4_0 or Q4_1, whose blocks they
/// fill.
std::string gguf_encoded(const Array& elements, const GgufElement& type);

}  // namespace alpa
