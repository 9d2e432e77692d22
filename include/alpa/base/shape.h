#pragma once
/// Shapes and tensor types. A shape is a list of non-negative extents, outermost
/// first; rank 0 is a scalar.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "alpa/base/dtype.h"
#pragma GCC visibility push(default)

namespace alpa {

using Shape = std::vector<std::int64_t>;  ///< extents, outermost first

/// Most elements of one tensor, 2^50: its bytes are exact in a double, and sums over
/// many tensors stay below 2^63.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 50;

/// Most dimensions of one tensor: the most that copies between shards support.
inline constexpr int kMaxRank = 16;

/// Product of the extents; 1 for a scalar. Everything that multiplies extents uses this function.
/// Throws Error naming the shape if an extent is negative, or if the extents other than 0 multiply
/// to more than kMaxElements.
std::int64_t num_elements(const Shape& shape);

/// "[8, 768]"
std::string to_string(const Shape& shape);

/// Element type and shape of a dense row-major tensor.
struct TensorType {
  DType dtype = DType::f32;  ///< element type
  Shape shape;               ///< a scalar has no extents

  bool operator==(const TensorType&) const = default;
  std::int64_t elements() const { return num_elements(shape); }  ///< product of the extents
  /// of all elements
  std::int64_t bytes() const { return elements() * static_cast<std::int64_t>(size_of(dtype)); }
  int rank() const { return static_cast<int>(shape.size()); }  ///< number of dimensions
};

/// "f32"
inline std::string to_string(DType dtype) { return std::string(name_of(dtype)); }

/// "f32[8, 768]"
std::string to_string(const TensorType& type);

/// Throws Error if `type` has more than kMaxRank dimensions, a negative extent or more than
/// kMaxElements elements. `what` names the tensor in the message: "batch input \"x\"".
void check_type(const TensorType& type, std::string_view what);

/// Inverse of `to_string(TensorType)`. Throws Error naming what could not be read.
TensorType parse_tensor_type(const std::string& text);

}  // namespace alpa
#pragma GCC visibility pop
