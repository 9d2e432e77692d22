#pragma once
/// A partitioned program: one graph for all devices of a mesh. Types are those of whole tensors; `specs` says how each lies on the mesh, so a
/// device's local shapes follow from its coordinates. Collectives and local slices are nodes like any other.
#include <map>
#include <string>
#include <vector>

#include "alpa/intra_op/plan.h"
#include "alpa/ir/graph.h"

namespace alpa {

struct SpmdProgram {
  DeviceMesh mesh;
  Graph graph;
  std::vector<ShardingSpec> specs;  ///< per value of `graph`
};

/// Operators of partitioned programs; attribute "axes" (mesh axes), "dim", "from_dim" as in ReshardStep.
namespace ops {
extern const OpDef all_reduce, reduce_scatter, all_gather, all_to_all, slice_shard, to_partial;
/// Elementwise chain: one node, several results; attributes as in kernels/elementwise.h.
extern const OpDef fused;
}  // namespace ops

/// True for nodes that talk to other devices.
bool is_collective(const Node& node);

/// Inserts the planned reshards. The result computes the same as `graph`, on every device its part.
SpmdProgram partition(const Graph& graph, const ShardingPlan& plan);

/// Joins elementwise nodes of equal iteration space and spec that run together into `fused` nodes; never across a collective's wait.
SpmdProgram fuse_elementwise(const SpmdProgram& program);

/// Moves each collective to the earliest place its operands allow and joins neighbours of one kind and one group, while the joined size is
/// at most `bucket_bytes` per device, into one node with several operands and results.
SpmdProgram bucket_collectives(const SpmdProgram& program, std::int64_t bucket_bytes);

/// Throws Bug naming the first node whose local shapes don't follow from specs, or whose specs contradict its operator.
void verify(const SpmdProgram& program);

/// Text form of a partitioned program: the graph's text with the spec of every value.
std::string to_string(const SpmdProgram& program);

/// Bytes a device sends and number of calls, per collective kind, in one step (accumulate regions counted once per micro-batch).
struct Traffic {
  std::int64_t count = 0;
  double bytes = 0;
};
std::map<std::string, Traffic> traffic(const SpmdProgram& program);

}  // namespace alpa
