#pragma once
/// Epilogues of matrix products: a bias, activation, gradient or addend applied to the elements
/// before they are stored, or the sums of an operand. Attribute "epilogue" of operator
/// einsum_epilogue, for every backend.
#include <cstdint>
#include <string>
#include <string_view>

#include "alpa/base/dtype.h"
#include "src/tensor/elementwise_program.h"

namespace alpa {

/// z = function(product + bias), or product · function'(kept), or product (+ bias) + addend; beside
/// a product without bias perhaps the sums of an operand.
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
  /// The last operand is added: of z's shape and type, which may be f32 for products of bf16 or
  /// f16. z may be made in its place.
  bool add = false;

  bool operator==(const Epilogue&) const = default;
  bool has_vector() const { return bias || sums_of >= 0; }
  bool has_kept() const { return keep || gradient; }
  /// Nothing but an addend, which every product can have.
  bool is_plain() const { return *this == Epilogue{.add = add}; }
};

/// "bias relu keep", "gelu gradient", "sums1 add"; "" for no epilogue.
std::string to_string(const Epilogue& epilogue);

/// Inverse of `to_string`. Throws Bug on any other text.
Epilogue parse_epilogue(std::string_view text);

/// The epilogue as an elementwise program: (product[, bias or kept][, addend]) → (z[, operand of
/// gelu]), with intermediates rounded to `dtype` as if they were stored. Not for the gradient
/// of relu, which reads bits.
ElementwiseProgram epilogue_program(const Epilogue& epilogue, DType dtype);

}  // namespace alpa
