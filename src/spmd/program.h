#pragma once
/// A partitioned program: one graph for all devices of one or several meshes. Types are those of
/// whole tensors; `specs` gives each value's layout on its mesh, so a device's local shapes follow
/// from its coordinates. Collectives, local slices and transfers between meshes are ordinary nodes.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "alpa/ir/graph.h"
#include "alpa/plan/sharding_plan.h"
#include "src/plan/cost/transfer_prices.h"

namespace alpa {
struct KernelCall;
}  // namespace alpa

/// Operators of partitioned programs that change only the layout: results have the types of the
/// operands. Attributes as in ReshardStep: "axes" (mesh axes); "dims", one per tensor (not for
/// all_reduce and to_partial); "from_dim" for all_to_all. all_reduce, reduce_scatter and all_gather
/// take any number of tensors, the others one.
namespace alpa::ops {
extern const OpDef all_reduce, reduce_scatter, all_gather, all_to_all, slice_shard, to_partial;
/// Moves x from one mesh to another, between any specs that are not partial. The only operator
/// whose operand and result are on different meshes. Attributes, all optional: "strategy", by its
/// name; "devices_per_host" and "chunks" of the TransferRoute; "reshards", the number of steps
/// behind it that belong to it. `cost/transfer.h` defines which device sends which box.
extern const OpDef transfer;
/// An elementwise program as one node with several results of one shape. Attributes: those of the
/// ElementwiseProgram, and "shape" and "dtypes" ("f32 u8") of the results.
extern const OpDef fused;
/// (x, y[, bias or kept][, addend]) → (z[, kept or sums]): an einsum fused with the bias,
/// activation, gradient or addend that attribute "epilogue" (kernels/plan/epilogue.h) names.
extern const OpDef einsum_epilogue;
/// (sum, x) → sum + x in the sum's type, of one or many sums.
extern const OpDef multi_tensor_add;
}  // namespace alpa::ops

namespace alpa::spmd {

/// Attribute of a reshard that is made once per step, before the micro-batches.
inline constexpr std::string_view kOnce = "once";

struct SpmdProgram {
  /// One per stage. Two of them have the same devices in the same order (several stages on one
  /// group of devices, each with a logical shape of its own), or share none.
  std::vector<DeviceMesh> meshes;
  Graph graph;
  std::vector<ShardingSpec> specs;      ///< per value of `graph`
  std::vector<int> mesh_of_value = {};  ///< per value, index into `meshes`; empty: one mesh
  bool fixed_sums = false;              ///< kernels add in one order (KernelCall::sums)
  /// Micro-batches that each mesh has in flight, at most; empty: one.
  std::vector<int> in_flight = {};

  int mesh_index(int value) const { return mesh_of_value.empty() ? 0 : mesh_of_value[value]; }
  const DeviceMesh& mesh_of(int value) const { return meshes[mesh_index(value)]; }
  /// True if the meshes have the same devices.
  bool same_devices(int mesh, int other) const {
    return mesh == other || meshes[mesh].devices() == meshes[other].devices();
  }
  /// The mesh of a node's results. Its operands are on the same mesh, except for `transfer`.
  const DeviceMesh& mesh_of(const Node& node) const { return mesh_of(node.results.front()); }
};

/// A device's first mesh and its rank in that mesh.
struct MeshPlace {
  int mesh = 0, rank = 0;
};
/// Throws Bug if no mesh has the device.
MeshPlace place_of(const SpmdProgram& program, int device);

/// Ids of the devices of all meshes, mesh by mesh, each once.
std::vector<int> devices_of(const SpmdProgram& program);

/// The meshes with the same devices as each other, in the order of the first one.
std::vector<std::vector<int>> mesh_groups(const SpmdProgram& program);

/// The devices among which a collective runs, in the order of their shards, as the device of this
/// rank on the node's mesh sees it.
std::vector<int> group_of(const SpmdProgram& program, const Node& node, int rank);

/// The operators of partitioned programs that are not in `all_ops()`.
std::span<const OpDef* const> partitioned_ops();

/// The operator of a resharding step of this kind.
const OpDef& reshard_op(CollectiveKind kind);

/// True for nodes that exchange data within a mesh.
bool is_collective(const Node& node);

/// True for `ops::to_partial`: coordinate 0 keeps the operand, others have the identity.
bool is_to_partial(const Node& node);

/// True for `ops::transfer`.
bool is_transfer(const Node& node);

/// Per node, whether it runs once per step, before the micro-batches: a transfer of what is the
/// same in all of them (state, and what is computed of it and of inputs that all micro-batches
/// share), what computes that, the reshards behind the transfer, and reshards of state with
/// attribute kOnce. None in programs of one micro-batch.
std::vector<bool> once_before(const SpmdProgram& program);

/// Operand and result of a transfer.
cost::MeshLayout source_of(const SpmdProgram& program, const Node& transfer);
cost::MeshLayout target_of(const SpmdProgram& program, const Node& transfer);

/// The boxes of a transfer, in the order in which devices send them.
std::vector<cost::TransferTile> transfer_tiles(const SpmdProgram& program, const Node& transfer);

/// A transfer's way, from its attributes, and what it costs. Node `n` of a program as
/// `join_stages` makes it: later passes may merge the reshards behind a transfer.
cost::PlannedTransfer planned_transfer(const SpmdProgram& program, int n,
                                       cost::TransferPrices& prices);

/// Inserts the plan's reshards, each just before its first use and named "<value>.<kind>". The
/// result computes what `graph` computes, each device its part. A reshard that is read both per
/// micro-batch and in region apply is emitted in each. One that is made once per step follows its
/// value, in region forward. Throws Bug if the plan lacks a reshard.
SpmdProgram partition(const Graph& graph, const ShardingPlan& plan);

/// A partitioned program whose kernels add in one order, so that the bits of results do not depend
/// on the plan. Throws Error naming the first node of which another order, or a type of 16 or 64
/// bits, is asked for, or an accumulator that `whole`, the step's graph, does not have.
SpmdProgram with_fixed_sums(SpmdProgram program, const Graph& whole);

/// Fuses elementwise nodes of one iteration space, spec and region into `fused` nodes, placed where
/// their last member was. Scalar constants and broadcasts become part of the nodes that read them.
/// No work moves past the point where a collective's result is needed. Values rounded to bf16 or
/// f16 before fusion are still rounded after it.
SpmdProgram fuse_elementwise(const SpmdProgram& program);

/// True if one kernel can compute an einsum_epilogue node of these local types and attributes.
/// Data pointers are not set.
using FusesEpilogue = bool (*)(const KernelCall& node);

/// Fuses an einsum with the bias, activation or gradient that follows it, where `fuses` says that
/// one kernel can do both. Also fuses the sums of one operand over the contracted letters (the
/// gradient of a bias). The operand of relu or gelu is kept if the gradient reads it; for relu as
/// bits. Conditions: nothing else reads the intermediate value; types are f32, bf16 or f16; the
/// einsum's result is not partial (sums of the operand may be as partial as the einsum). In bf16
/// and f16 the intermediate value is not rounded. A bias defined after the einsum moves before it,
/// with the nodes that compute it, if these are inputs or nodes of the einsum's region.
/// A product that is added to another value of its layout, converted first perhaps, is made onto
/// that value: sums of gradients, residuals, accumulators. Partial sums are added to partial sums.
/// The value must be ready, an input, and not what a collective or transfer brings.
SpmdProgram fuse_epilogues(const SpmdProgram& program, FusesEpilogue fuses);

/// Replaces the addition to an accumulator of less than 1 MiB per device, and a conversion before
/// it, by a multi_tensor_add, which `fuse_optimizer_updates` merges: one launch a micro-batch for
/// all vectors. Runs before `fuse_elementwise`.
SpmdProgram fuse_small_sums(const SpmdProgram& program);

/// Moves reductions (all_reduce, reduce_scatter) to the earliest place their operands allow; with
/// one micro-batch, reductions of gradients move into the backward pass. Then merges small
/// collectives of one kind, combiner, element type, group and region into one node with at most
/// `bucket_bytes` of payload per device. The merged node takes the place of its last member. If a
/// result is read before that (parameters gathered layer by layer), it takes the place of its first
/// members. Neither step may raise the peak of live bytes by more than `slack_bytes`, judged by the
/// sizes of values. all_to_all nodes are not merged.
SpmdProgram bucket_collectives(const SpmdProgram& program, std::int64_t bucket_bytes,
                               std::int64_t slack_bytes = 0);

/// Moves gathers of state ahead, so that they run beside the work that reads those before them: to
/// just before that work, within a region. What has been gathered ahead is at most twice the
/// largest gather. The peak of live bytes, judged by the sizes of values, grows by `slack_bytes` at
/// most; a gather that would raise it further stays.
SpmdProgram prefetch_gathers(const SpmdProgram& program, std::int64_t slack_bytes);

/// Bytes of state plus the peak of all other values, on the device that holds most, judged by the
/// sizes of values. Padding, scratch and gaps between buffers are not included.
std::int64_t estimated_bytes(const SpmdProgram& program);

/// Merges optimizer updates of region apply with equal settings and the same scalar operands into
/// one node, for backends where a launch costs time; nodes of multi_tensor_add, too. The node is
/// placed as a bucket of collectives is, with the same limit on memory.
SpmdProgram fuse_optimizer_updates(const SpmdProgram& program);

/// Replaces reduce_sum(square(x)) over all dimensions by squared_norms(x), if nothing else reads
/// the squares (squared errors of a loss). The squares are then neither stored nor rounded to the
/// element type; a cast of x to a wider type is dropped. Runs before `fuse_elementwise`, which
/// would fuse the squares with the producer of x.
SpmdProgram fuse_squares(const SpmdProgram& program);

/// Attribute of an optimizer update that runs concurrently with the nodes after it: its operands
/// and results stay in use to the end of the step.
inline constexpr std::string_view kOverlapped = "overlapped";

/// With one micro-batch: moves each update to just after its gradient and the last reader of the
/// parameter it replaces, and sets attribute kOverlapped. Updates whose gradient is a collective's
/// result, or whose results are read, stay.
SpmdProgram overlap_updates(const SpmdProgram& program);

/// Merges `squared_norms` nodes (of clipped gradients and of losses) into one node per region and
/// element type, placed as a bucket of collectives is.
SpmdProgram fuse_squared_norms(const SpmdProgram& program);

/// Throws Bug naming the first node whose specs disagree with its operator, or whose values
/// are not on one mesh (transfer: on two), or the first update or metric of a wrong spec.
/// Also throws as verify(Graph).
void verify(const SpmdProgram& program);

/// Text form of a partitioned program: the mesh, then the graph's text, each node followed by the
/// specs of its results and, with several meshes, by its mesh.
std::string to_string(const SpmdProgram& program);

/// Traffic of one step per collective kind, and for "transfer" (boxes sent). Nodes that run once
/// per micro-batch count that often. The device is the one at coordinate 0 of its mesh (transfers:
/// the busiest device); the result is the maximum over all meshes.
std::map<std::string, Traffic> traffic(const SpmdProgram& program);

}  // namespace alpa::spmd
