#pragma once
/// What is done to the elements of a matrix product before they are stored, or beside it: attribute
/// "epilogue" of operator einsum_epilogue, for every backend.
#include <cstdint>
#include <string>
#include <string_view>

#include "alpa/base/dtype.h"
#include "alpa/tensor/elementwise_program.h"

namespace alpa {

/// z = function(product + bias), or product · function'(what was kept), or the plain product and sums.
struct Epilogue {
  enum class Function : std::uint8_t { none, relu, gelu };
  bool bias = false;  ///< a vector over the product's last dimensions is added
  Function function = Function::none;
  /// What `gradient` needs becomes a second result: the bits of what relu let pass (bit i mod 8 of byte
  /// i / 8 for element i of a row), or the operands of gelu.
  bool keep = false;
  bool gradient = false;  ///< not the function, but its derivative at what was kept is applied
  /// The operand whose sums over the contracted letters become a second result; -1: none.
  int sums_of = -1;

  bool operator==(const Epilogue&) const = default;
  bool has_vector() const { return bias || sums_of >= 0; }
  bool has_kept() const { return keep || gradient; }
};

/// "bias relu keep", "gelu gradient", "sums1"; "" for nothing at all.
std::string to_string(const Epilogue& epilogue);

/// Inverse of `to_string`. Throws Bug on any other text.
Epilogue parse_epilogue(std::string_view text);

/// The elementwise part on its own: (product[, bias or what was kept]) → (z[, the operands of gelu]), with
/// intermediates rounded to `dtype` as if they were stored. Of relu's gradient, which reads bits, there is
/// none.
ElementwiseProgram epilogue_program(const Epilogue& epilogue, DType dtype);

}  // namespace alpa
