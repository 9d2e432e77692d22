#pragma once
/// Plans an einsum as one batched matrix product. A tensor is a dense array over an ordered list of
/// letters (its layout), without letters of extent 1. An operand that cannot be read as a matrix is
/// first copied into another layout.
#include <cstdint>
#include <map>
#include <string>

#include "kernels/plan/matmul_shape.h"

namespace alpa::kernels {

struct EinsumOperand {
  std::string layout;  ///< letters as stored, outermost first
  std::string summed;  ///< letters of no other tensor, summed first
  std::string packed;  ///< the layout to copy into; empty: used as it is
};

struct EinsumPlan {
  std::map<char, std::int64_t> extents;
  EinsumOperand a, b;       ///< after `swapped`
  std::string c, c_packed;  ///< result's layout, and the layout to compute it in if that is another
  bool swapped = false;     ///< a is the node's second input: the transposed result is computed
  MatmulShape shape;

  std::int64_t extent_of(const std::string& letters) const;
};

/// What a plan must have beside a product of matrices.
struct EinsumNeeds {
  bool one_batch = false;   ///< a batch of a single dimension
  bool fixed_sums = false;  ///< contracted letters in their order in x, whatever their extents
};

/// Equation "ab,bc->ac" over inputs and a result of these shapes. Operands are packed for what is
/// needed. Throws Bug if the shapes do not match.
EinsumPlan plan_einsum(const std::string& equation, const std::vector<std::int64_t>& x,
                       const std::vector<std::int64_t>& y, const std::vector<std::int64_t>& z,
                       const EinsumNeeds& needs = {});

/// The letters of input 0 or 1 as stored, without those of extent 1.
std::string stored_letters(const EinsumPlan& plan, const std::string& equation, int input);

/// The dimensions of input 0 or 1 that are contracted: both inputs have their
/// letters, the result does not.
std::vector<std::int64_t> summed_dims(const std::string& equation, int input);

/// Extents of these letters.
std::vector<std::int64_t> extents_of(const EinsumPlan& plan, const std::string& letters);

/// Strides, for the letters of `order`, of a dense array over `layout`; 0 for
/// letters it does not have.
std::vector<std::int64_t> strides_of(const EinsumPlan& plan, const std::string& layout,
                                     const std::string& order);

}  // namespace alpa::kernels
