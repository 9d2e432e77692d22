#pragma once
/// The index rule of a node: which index letters (factors) its operands and results share. It is the single source of
/// result shapes, partitioning strategies, partial results, local work and local shapes (after Shardy's sharding rules).
#include <cstdint>
#include <vector>

#include "alpa/base/shape.h"

namespace alpa {

enum class FactorKind : std::uint8_t {
  pass,   ///< appears in every result that has it; splitting it needs no communication
  sum,    ///< absent from the results: splitting it leaves results partial, to be summed
  max,    ///< absent from the results: splitting it leaves results partial, to be maximised
  whole,  ///< cannot be split
};

struct Factor {
  std::int64_t size = 1;
  FactorKind kind = FactorKind::pass;
  bool even_only = false;  ///< may be split only into equal parts (the major factor of a compound dimension)
};

/// Factors of each dimension of one tensor, major first. No factors: a dimension of extent 1 that is broadcast.
using DimFactors = std::vector<std::vector<int>>;

struct Rule {
  std::vector<Factor> factors;
  std::vector<DimFactors> operands, results;
  /// Sets of operands (bit i: operand i) in which the node is jointly linear: if on a mesh axis exactly those operands are
  /// partial sums and the others are whole, the results are partial sums over that axis. add: {0b11}; mul: {0b01, 0b10}. The empty
  /// set {0} of an operator without operands says that its result is zero, which is a partial sum of nothing.
  std::vector<std::uint32_t> linear;
  double flops_per_point = 0;  ///< per point of the whole iteration space (the product of all factors)
};

/// Shape of a tensor with these dimensions.
Shape shape_of(const Rule& rule, const DimFactors& dims);

/// flops_per_point times the product of all factor sizes.
double flops(const Rule& rule);

/// Throws Bug unless sizes are positive, factors are in range and occur at most once per tensor, pass factors occur in a result,
/// sum and max factors in an operand and no result, and linear sets name operands that exist.
void verify(const Rule& rule);

}  // namespace alpa
