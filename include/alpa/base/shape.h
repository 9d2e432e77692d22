#pragma once
/// Shapes and tensor types. A shape is a list of non-negative extents, outermost first; rank 0 is a scalar.
#include <cstdint>
#include <string>
#include <vector>

#include "alpa/base/dtype.h"

namespace alpa {

using Shape = std::vector<std::int64_t>;

/// Product of the extents; 1 for a scalar.
std::int64_t num_elements(const Shape& shape);

/// "[8, 768]"
std::string to_string(const Shape& shape);

/// Element type and shape of a dense row-major tensor.
struct TensorType {
  DType dtype = DType::f32;
  Shape shape;

  bool operator==(const TensorType&) const = default;
  std::int64_t elements() const { return num_elements(shape); }
  std::int64_t bytes() const { return elements() * static_cast<std::int64_t>(size_of(dtype)); }
  int rank() const { return static_cast<int>(shape.size()); }
};

/// "f32[8, 768]"
std::string to_string(const TensorType& type);

/// Inverse of `to_string(TensorType)`. Throws Error naming what could not be read.
TensorType parse_tensor_type(const std::string& text);

}  // namespace alpa
