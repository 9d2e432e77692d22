#pragma once
/// Attention in a text: its products, and the gradient that a whole step has of it.
#include "src/import/match.h"

namespace alpa::stablehlo {

/// Operands, and which of their dimensions are what. The result has batch dimensions, then each
/// operand's other one.
struct Product {
  int operand[2] = {-1, -1};
  std::vector<std::int64_t> batch[2], summed[2];
  int free[2] = {-1, -1};  ///< each operand's one other dimension
};

/// A product of tensors with one dimension each beside batch and summed ones.
bool find_product_of(const Matching& m, int v, Product& p);

/// softmax(scale · mask(q kᵀ)) v, as it was found.
struct Attention {
  Product scores, out;
  int probabilities_at = 0;  ///< the operand of `out`
  int exponentials = -1, total = -1;
  int mask = -1;  ///< of the scores, broadcast; -1: none
  double scale = 1;
  bool swapped = false;  ///< batch dimensions are heads, examples

  int probabilities() const { return out.operand[probabilities_at]; }
  int values() const { return out.operand[1 - probabilities_at]; }
};

/// The order of an operand's dimensions as [B, T, H, D]; without a batch dimension of heads, three.
std::vector<int> heads_order(const std::vector<std::int64_t>& batch, int row, int width,
                             bool swapped);

/// The same of a product's result, whose operand `at` has the rows.
std::vector<int> result_order(const Product& product, int at, bool swapped);

/// Makes `operation` the attention `by`, and the three products of its gradient one operation, if
/// then nothing reads the exponentials any more; else changes nothing.
bool replace_with_gradient(Matching& m, FlatOperation& operation, const FlatOperation& by,
                           const Attention& attention);

}  // namespace alpa::stablehlo
