#pragma once
/// How one node is split over a mesh. A strategy gives every mesh axis a role; operand and
/// result specs, partial results and local work follow from it and the node's index rule, the
/// same way for every operator.
#include <cstdint>
#include <vector>

#include "alpa/plan/sharding_plan.h"
#include "src/ir/rule.h"

namespace alpa::intra_op {

/// True if a factor may be split into more parts than it has elements, so that devices have none.
enum class IdleDevices : std::uint8_t { none, allowed };

/// Every strategy of a node with this rule on the mesh: each axis none, a splittable factor
/// at least as large as the product of the axes on it (and divisible by it if `even_only`),
/// or a linear set. With idle devices, a factor of at least 2 may be smaller than that product.
/// A node without operands that has linear set {0} may produce partial sums from nothing (a
/// zero accumulator). Axes of size 1 have role none. Ordered; the first is fully replicated.
std::vector<Strategy> all_strategies(const Rule& rule, const DeviceMesh& mesh,
                                     IdleDevices idle = IdleDevices::none);

/// True if the strategy leaves the sums of one order (KernelCall::sums) their order: it splits no
/// summed factor but the chunked one, over devices that have equally many chunks, and no operand is
/// a partial sum.
bool keeps_sum_order(const Rule& rule, const Strategy& strategy, const DeviceMesh& mesh);

/// Factor split by each axis (-1: none), for operator_seconds.
std::vector<int> factor_of_axis(const Strategy& strategy, const DeviceMesh& mesh);

/// Devices over which a strategy splits factors, along the mesh axes in `axes` (bit a: axis a).
int devices_used(const Strategy& strategy, const DeviceMesh& mesh, std::uint32_t axes = ~0u);

/// The spec in which the node needs operand `i`.
ShardingSpec operand_spec(const Rule& rule, const Strategy& strategy, const DeviceMesh& mesh,
                          int i);

/// The spec in which the node produces result `i`: split if the result has the factor, partial if
/// the factor is reduced into it or the role is linear.
ShardingSpec result_spec(const Rule& rule, const Strategy& strategy, const DeviceMesh& mesh,
                         int i = 0);

}  // namespace alpa::intra_op
