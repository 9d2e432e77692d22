#pragma once
/// The index rule of a node: which index letters (factors) its operands and results share. It is
/// the single source of result shapes, partitioning strategies, partial results, local work and
/// local shapes (after Shardy's sharding rules).
#include <cstdint>
#include <optional>
#include <vector>

#include "alpa/base/combiner.h"
#include "alpa/base/shape.h"

namespace alpa {

struct Factor {
  std::int64_t size = 1;
  bool whole = false;  ///< cannot be split
  /// may be split only into equal parts (the major factor of a compound dimension)
  bool even_only = false;
};

/// A factor over which a result is combined: splitting the factor leaves that result partial.
struct Reduced {
  int factor = 0;
  Combiner combiner = Combiner::sum;
  bool operator==(const Reduced&) const = default;
};

/// Factors of each dimension of one tensor, major first. A dimension without factors has
/// extent 1 and is broadcast.
using DimFactors = std::vector<std::vector<int>>;

/// If a factor is split, each result is either split (it has the factor) or partial (the
/// factor is reduced into it). Otherwise it does not depend on the factor, and every device
/// computes the same result.
struct Rule {
  std::vector<Factor> factors;
  std::vector<DimFactors> operands, results;
  /// Per result, the free factors reduced into it. Empty: no reductions.
  std::vector<std::vector<Reduced>> reduced = {};
  /// Per operand, factors whose sizes multiply to the number of elements read; empty or nullopt:
  /// each element once. A lookup, for example, reads tokens × width of its table.
  std::vector<std::optional<std::vector<int>>> reads = {};
  /// Lists of factors. The sizes in a list are multiplied; the sum of these products is the number
  /// of points of `flops_per_point`. Empty: one list of all factors.
  std::vector<std::vector<int>> work = {};
  /// Sets of operands (bit i: operand i) in which the node is jointly linear: if exactly those
  /// operands are partial sums over a mesh axis, all results are partial sums over it. add: {0b11};
  /// mul: {0b01, 0b10}. The empty set, {0}, of an operator without operands means that its result
  /// is zero, which is also a valid partial sum.
  std::vector<std::uint32_t> linear = {};
  double flops_per_point = 0;
  /// Factors of what attention keeps in registers, its scores; empty: other operators. A system
  /// without a fused kernel writes and reads them (SoftwareModel::attention_passes).
  std::vector<int> scores = {};
  /// An operand that is added to result 0, with its dimensions: partial where the result is. -1:
  /// none.
  int addend = -1;
  /// The summed factor that kernels can sum in chunks of the whole tensor (`sum_chunks`); -1: none.
  int chunked = -1;
};

/// Shape of a tensor with these dimensions.
Shape shape_of(const Rule& rule, const DimFactors& dims);

/// True if a dimension has `factor`.
bool has_factor(const DimFactors& dims, int factor);

/// How `factor` is reduced into result `result`; nullopt if it is not.
std::optional<Combiner> reduction(const Rule& rule, int result, int factor);

/// True if `factor` is reduced into any result.
bool is_reduced(const Rule& rule, int factor);

/// Where sums have one order whatever the plan, the equal chunks in which factor `chunked` is
/// summed: a power of two, up to eight, that divides its size. 1 if there is no such factor.
int sum_chunks(const Rule& rule);

/// Floating-point operations where factor f has the size `sizes[f]`.
double flops(const Rule& rule, const std::vector<std::int64_t>& sizes);
/// Floating-point operations of the whole node.
double flops(const Rule& rule);

/// Throws Bug unless sizes are positive, and factors are in range and occur at most once
/// per tensor and list. A reduced factor must be free, in an operand, and not in the result
/// it is reduced into. A free factor must be in a result or reduced into one. Linear sets
/// must name existing operands.
void verify(const Rule& rule);

}  // namespace alpa
