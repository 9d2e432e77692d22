#pragma once
/// Epilogues of matrix products: a bias, activation or gradient applied to the elements before
/// they are stored, or the sums of an operand. Attribute "epilogue" of operator
/// einsum_epilogue, for every backend.
#include <cstdint>
#include <string>
#include <string_view>

#include "alpa/base/dtype.h"
#include "src/tensor/elementwise_program.h"

namespace alpa {

/// z = function(product + bias), or product · function'(kept), or the plain product
/// and the sums of an operand.
struct Epilogue {
  enum class Function : std::uint8_t { none, relu, gelu };
  bool bias = false;  ///< a vector over the product's last dimensions is added
  Function function = Function::none;
  /// The operand of `gradient` becomes a second result: for relu a mask of the positive elements
  /// (bit i mod 8 of byte i / 8 for element i of a row), for gelu its operand.
  bool keep = false;
  bool gradient = false;  ///< multiply by the function's derivative at the kept operand instead
  /// The operand whose sums over the contracted letters become a second result; -1: none.
  int sums_of = -1;

  bool operator==(const Epilogue&) const = default;
  bool has_vector() const { return bias || sums_of >= 0; }
  bool has_kept() const { return keep || gradient; }
};

/// "bias relu keep", "gelu gradient", "sums1"; "" for no epilogue.
std::string to_string(const Epilogue& epilogue);

/// Inverse of `to_string`. Throws Bug on any other text.
Epilogue parse_epilogue(std::string_view text);

/// The epilogue as an elementwise program: (product[, bias or kept]) → (z[, operand of
/// gelu]), with intermediates rounded to `dtype` as if they were stored. Not for the gradient
/// of relu, which reads bits.
ElementwiseProgram epilogue_program(const Epilogue& epilogue, DType dtype);

}  // namespace alpa
