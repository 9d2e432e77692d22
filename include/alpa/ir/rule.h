#pragma once
/// The index rule of a node: which index letters (factors) its operands and results share. It is the single source of
/// result shapes, partitioning strategies, partial results, local work and local shapes (after Shardy's sharding rules).
#include <cstdint>
#include <optional>
#include <vector>

#include "alpa/base/combiner.h"
#include "alpa/base/shape.h"

namespace alpa {

struct Factor {
  std::int64_t size = 1;
  bool whole = false;      ///< cannot be split
  bool even_only = false;  ///< may be split only into equal parts (the major factor of a compound dimension)
};

/// A factor over which a result is combined: splitting the factor leaves that result partial.
struct Reduced {
  int factor = 0;
  Combiner combiner = Combiner::sum;
  bool operator==(const Reduced&) const = default;
};

/// Factors of each dimension of one tensor, major first. No factors: a dimension of extent 1 that is broadcast.
using DimFactors = std::vector<std::vector<int>>;

/// Where a factor is split, each result is split (it has the factor), partial (the factor is reduced into it), or, if neither,
/// does not depend on the factor: every device computes it alike.
struct Rule {
  std::vector<Factor> factors;
  std::vector<DimFactors> operands, results;
  /// Per result, the free factors reduced into it. Empty: nothing is reduced into any.
  std::vector<std::vector<Reduced>> reduced = {};
  /// Per operand, factors whose sizes multiply to the number of elements that are read, for an operator that does not read every
  /// element once (a lookup reads tokens × width of its table). Empty, or nullopt: all elements, once.
  std::vector<std::optional<std::vector<int>>> reads = {};
  /// Factors whose sizes multiply to the number of points of `flops_per_point`. Empty: all.
  std::vector<int> work = {};
  /// Sets of operands (bit i: operand i) in which the node is jointly linear: if on a mesh axis exactly those operands are
  /// partial sums and the others are whole, all results are partial sums over that axis. add: {0b11}; mul: {0b01, 0b10}. The empty
  /// set {0} of an operator without operands says that its result is zero, which is a partial sum of nothing.
  std::vector<std::uint32_t> linear = {};
  double flops_per_point = 0;
};

/// Shape of a tensor with these dimensions.
Shape shape_of(const Rule& rule, const DimFactors& dims);

/// Whether a dimension has `factor`.
bool has_factor(const DimFactors& dims, int factor);

/// How `factor` is reduced into result `result`; nullopt if it is not.
std::optional<Combiner> reduction(const Rule& rule, int result, int factor);

/// Whether `factor` is reduced into any result.
bool is_reduced(const Rule& rule, int factor);

/// Floating-point operations where factor f has the size `sizes[f]`.
double flops(const Rule& rule, const std::vector<std::int64_t>& sizes);
/// Floating-point operations of the whole node.
double flops(const Rule& rule);

/// Throws Bug unless sizes are positive, factors are in range and occur at most once per tensor and list, a reduced factor is
/// free, in an operand and not in the result it is reduced into, a free factor is in a result or reduced into one, and linear sets
/// name operands that exist.
void verify(const Rule& rule);

}  // namespace alpa
