#pragma once
/// How one node is split over a mesh. A strategy gives every mesh axis a role; operand and
/// result specs, partial results and local work follow from it and the node's index rule, the
/// same way for every operator.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "alpa/ir/rule.h"
#include "alpa/mesh/device_mesh.h"
#include "alpa/mesh/sharding_spec.h"

namespace alpa {

/// The role of a mesh axis in a node.
struct AxisRole {
  enum class Kind : std::uint8_t {
    none,    ///< every device along the axis does the same work
    factor,  ///< splits factor `index` of the rule
    linear,  ///< the operands in linear set `index` are partial sums, and so are the results
  } kind = Kind::none;
  std::uint8_t index = 0;

  bool operator==(const AxisRole&) const = default;
};

/// One role per mesh axis. Axes that split the same factor do so in axis
/// order, the first being major.
struct Strategy {
  std::array<AxisRole, kMaxMeshAxes> axes{};
  bool operator==(const Strategy&) const = default;
};

/// Every strategy of a node with this rule on the mesh: each axis none, a splittable factor
/// at least as large as the product of the axes on it (and divisible by it if `even_only`),
/// or a linear set. A node without operands that has linear set {0} may produce partial
/// sums from nothing (a zero accumulator). Axes of size 1 have role none. Ordered; the
/// first is fully replicated.
std::vector<Strategy> all_strategies(const Rule& rule, const DeviceMesh& mesh);

/// Factor split by each axis (-1: none), for operator_seconds.
std::vector<int> factor_of_axis(const Strategy& strategy, const DeviceMesh& mesh);

/// The spec in which the node needs operand `i`.
ShardingSpec operand_spec(const Rule& rule, const Strategy& strategy, const DeviceMesh& mesh,
                          int i);

/// The spec in which the node produces result `i`: split if the result has the factor, partial if
/// the factor is reduced into it or the role is linear.
ShardingSpec result_spec(const Rule& rule, const Strategy& strategy, const DeviceMesh& mesh,
                         int i = 0);

/// "i@0 k@1"-like text: one word per axis with a role, factors numbered f0, f1, …,
/// linear sets l0, …; "-" if none.
std::string to_string(const Strategy& strategy);
Strategy parse_strategy(std::string_view text);

}  // namespace alpa
