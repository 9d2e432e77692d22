// src/base/shape.cc — products of extents, checks and text form of tensor types
#include "alpa/base/shape.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "alpa/base/error.h"
#include "alpa/base/text.h"

namespace alpa {
namespace {

std::int64_t parse_extent(std::string_view digits, std::string_view whole) {
  std::int64_t extent = -1;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), extent);
  require(status == std::errc{} && end == digits.data() + digits.size() && extent >= 0,
          "'{}' is not a tensor type: '{}' is not an extent; write for example f32[8, 768]",
          excerpt(whole), excerpt(digits));
  return extent;
}

/// Extents of `list`, the text between the brackets: "8, 768" with any
/// number of blanks after a comma.
Shape parse_extents(std::string_view list, std::string_view whole) {
  Shape shape;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    shape.push_back(parse_extent(list.substr(0, comma), whole));
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
    list.remove_prefix(std::min(list.find_first_not_of(' '), list.size()));
    require(!list.empty(), "'{}' is not a tensor type: an extent is missing after the last comma",
            excerpt(whole));
  }
  return shape;
}

/// Why a tensor cannot have this shape; empty if it can. Then `elements` is set to their number.
std::string_view fault_of(const Shape& shape, std::int64_t& elements) {
  std::int64_t product = 1;
  bool none = false;
  for (std::int64_t extent : shape) {
    if (extent < 0) return "extents can't be negative";
    none = none || extent == 0;
    if (extent > 0 && product > kMaxElements / extent) return "a tensor has at most 2^50 elements";
    if (extent > 0) product *= extent;
  }
  elements = none ? 0 : product;
  return {};
}

}  // namespace

std::int64_t num_elements(const Shape& shape) {
  std::int64_t elements = 0;
  const std::string_view fault = fault_of(shape, elements);
  if (!fault.empty()) fail("shape {}: {}", excerpt(to_string(shape)), fault);
  return elements;
}

void check_type(const TensorType& type, std::string_view what) {
  std::int64_t elements = 0;
  std::string_view fault = fault_of(type.shape, elements);
  if (type.shape.size() > kMaxRank) fault = "a tensor has at most 16 dimensions";
  if (!fault.empty()) fail("{} is {}; {}", what, excerpt(to_string(type)), fault);
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string to_string(const TensorType& type) {
  return std::string(name_of(type.dtype)) + to_string(type.shape);
}

TensorType parse_tensor_type(const std::string& text) {
  const std::string_view view = text;
  const std::size_t bracket = view.find('[');
  require(bracket != std::string_view::npos && view.back() == ']',
          "'{}' is not a tensor type; write for example f32[8, 768], or f32[] for a scalar",
          excerpt(text));
  const std::string_view extents = view.substr(bracket + 1, view.size() - bracket - 2);
  TensorType type{parse_dtype(view.substr(0, bracket)), parse_extents(extents, text)};
  check_type(type, "the tensor type");
  return type;
}

}  // namespace alpa
