#pragma once
/// The beginning of a safetensors file, for those that write its data themselves.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "alpa/base/shape.h"

namespace alpa {

/// A tensor of the file.
struct HeaderEntry {
  std::string name;
  std::string type;  ///< as `safetensors_type` has it
  Shape shape;
  std::int64_t bytes = 0;
};

/// The format's name of an element type.
const char* safetensors_type(DType dtype);

/// The header with its length; the data of the tensors follow in this order, without gaps. They
/// begin at a multiple of `alignment`, itself a multiple of 8.
std::string safetensors_header(const std::vector<HeaderEntry>& tensors,
                               const std::map<std::string, std::string>& metadata,
                               std::size_t alignment = 8);

}  // namespace alpa
