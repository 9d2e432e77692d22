// src/base/dtype.cc — names of element types
#include "alpa/base/dtype.h"

#include <string>

#include "alpa/base/error.h"
#include "alpa/base/text.h"

namespace alpa {

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::bf16: return "bf16";
    case DType::f16: return "f16";
    case DType::f64: return "f64";
    case DType::i32: return "i32";
    case DType::u8: return "u8";
  }
  bug("no element type has the number {}", static_cast<int>(dtype));
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
