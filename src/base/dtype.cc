// src/base/dtype.cc — names of element types
#include "alpa/base/dtype.h"

#include <string>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/base/name_table.h"

namespace alpa {

std::string_view name_of(DType dtype) {
  constexpr std::string_view kNames[] = {"f32", "bf16", "f16", "f64", "i32", "u8"};
  return name_in(kNames, dtype, "element type");
}

DType parse_dtype(std::string_view name) {
  std::string known;
  for (DType dtype : kDTypes) {
    if (name_of(dtype) == name) return dtype;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name_of(dtype));
  }
  fail("'{}' is not an element type; the types are {}", excerpt(name), known);
}

}  // namespace alpa
