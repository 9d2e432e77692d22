#pragma once
/// A partitioned program: one graph for all devices of one mesh or several. Types are those of whole
/// tensors; `specs` says how each lies on its mesh, so a device's local shapes follow from its coordinates.
/// Collectives, local slices and transfers between meshes are nodes like any other.
#include <map>
#include <string>
#include <vector>

#include "alpa/cost/transfer.h"
#include "alpa/intra_op/plan.h"
#include "alpa/ir/graph.h"

namespace alpa {

struct KernelCall;

struct SpmdProgram {
  std::vector<DeviceMesh> meshes;  ///< no device is in two of them
  Graph graph;
  std::vector<ShardingSpec> specs;      ///< per value of `graph`
  std::vector<int> mesh_of_value = {};  ///< per value, index into `meshes`; empty: all on the only one

  int mesh_index(int value) const { return mesh_of_value.empty() ? 0 : mesh_of_value[value]; }
  const DeviceMesh& mesh_of(int value) const { return meshes[mesh_index(value)]; }
  /// The mesh of a node's results; but for `transfer` also that of its operands.
  const DeviceMesh& mesh_of(const Node& node) const { return mesh_of(node.results.front()); }
};

/// A device's mesh and its place there.
struct MeshPlace {
  int mesh = 0, rank = 0;
};
/// Throws Bug if no mesh has the device.
MeshPlace place_of(const SpmdProgram& program, int device);

/// Ids of the devices of all meshes, mesh by mesh.
std::vector<int> devices_of(const SpmdProgram& program);

/// Operators of partitioned programs: results have the types of the operands, only the layout changes.
/// Attributes as in ReshardStep: "axes" (mesh axes), "dims" (but for all_reduce and to_partial; one per
/// tensor) and, for all_to_all, "from_dim". all_reduce, reduce_scatter and all_gather take any number of
/// tensors, the others one.
namespace ops {
extern const OpDef all_reduce, reduce_scatter, all_gather, all_to_all, slice_shard, to_partial;
/// x on one mesh to the same tensor on another one, in any spec that is not partial: the only operator
/// whose operand and result are on different meshes. No attributes. `cost/transfer.h` says who sends what.
extern const OpDef transfer;
/// Elementwise chain: one node, several results of one shape. Attributes of an ElementwiseProgram, and
/// "shape" and "dtypes" ("f32 u8") of the results.
extern const OpDef fused;
/// adam_update (sgd_update) of n parameters: operands w, m, v (w, velocity) of every one after the other,
/// their n gradients, learning_rate and step (learning_rate); results the new w, m, v (w, velocity).
/// Attributes of the single operator. Parameters may lie differently.
extern const OpDef adam_updates, sgd_updates;
/// (x, …) -> (sum of x², …), one number of type attribute "dtype" per operand: partial sums where x is
/// split.
extern const OpDef squared_norms;
/// (x, y[, bias or kept]) → (z[, kept or sums]): an einsum and what attribute "epilogue" says
/// (kernels/cpu/epilogue.h) of its elements, for backends whose matrix products do both at once.
extern const OpDef einsum_epilogue;
}  // namespace ops

/// The records of operators that partitioned programs have beside `all_ops()`.
std::span<const OpDef* const> partitioned_ops();

/// The operator that reshards so.
const OpDef& reshard_op(ReshardKind kind);

/// True for nodes that talk to other devices.
bool is_collective(const Node& node);

/// True for `ops::transfer`.
bool is_transfer(const Node& node);

/// Operand and result of a transfer.
MeshLayout source_of(const SpmdProgram& program, const Node& transfer);
MeshLayout target_of(const SpmdProgram& program, const Node& transfer);

/// Kind of a collective node. Throws Bug for any other.
CollectiveKind collective_kind(const Node& node);

/// Inserts the planned reshards, each just before its first use and named "<value>.<kind>". The result
/// computes the same as `graph`, on every device its part. A reshard read in both the micro-batches and
/// region apply is emitted in each. Throws Bug if the plan lacks one.
SpmdProgram partition(const Graph& graph, const ShardingPlan& plan);

/// Joins elementwise nodes of one iteration space, spec and region into `fused` nodes, which stand where
/// the last of them stood; scalar constants and broadcasts become part of the nodes that read them. Never
/// moves work past the arrival of a collective's result. A value that was rounded to bf16 or f16 before is
/// so after.
SpmdProgram fuse_elementwise(const SpmdProgram& program);

/// Whether one kernel can compute an einsum_epilogue node of these local types and attributes. Data
/// pointers are not set.
using FusesEpilogue = bool (*)(const KernelCall& node);

/// Fuses an einsum with the bias, activation or gradient that follows it, and with the sums of one operand
/// over the contracted letters (the gradient of a bias), where `fuses` says that one kernel can do both.
/// The operand of relu or gelu is kept where the gradient reads it; for relu as bits. Only where nothing
/// else reads the value between, types are f32, bf16 or f16, and the einsum's result is complete (sums of
/// the operand may be as partial as the einsum). In bf16 and f16 the value between is not rounded. A bias
/// that is defined after the einsum moves before it, with the nodes that compute it, where all of them are
/// inputs or nodes of the einsum's region.
SpmdProgram fuse_epilogues(const SpmdProgram& program, FusesEpilogue fuses);

/// Moves reductions (all_reduce, reduce_scatter) to the earliest place their operands allow, gradients of
/// the only micro-batch into the backward pass; then joins small collectives of one kind, combiner, element
/// type, group and region into one node with several operands and results, while their joined payload is at
/// most `bucket_bytes` per device. A joint node stands where its last member stood, or, if a result is read
/// before (parameters gathered layer by layer), where its first members stood. Neither may raise the peak
/// of what lives at once by more than `slack_bytes`, judged by the sizes of values. all_to_all stays
/// single.
SpmdProgram bucket_collectives(const SpmdProgram& program, std::int64_t bucket_bytes,
                               std::int64_t slack_bytes = 0);

/// Bytes of state and the most that other values take at once, on the device at coordinate 0, judged by the
/// sizes of values: padding, scratch and gaps between buffers come on top.
std::int64_t counted_bytes(const SpmdProgram& program);

/// Joins optimizer updates of region apply with equal settings and the same scalar operands into one node
/// for all parameters, which stands and is paid for as a bucket of collectives is: for backends where a
/// launch has a price.
SpmdProgram join_updates(const SpmdProgram& program);

/// Makes one node of a sum over all dimensions of squares that nothing else reads (squared errors, norms of
/// gradients): reduce_sum(square(x)) becomes squared_norms(x), so that squares are stored nowhere. They are
/// no longer rounded to the element type, and neither is x by a cast to a type of more bits. Precedes
/// `fuse_elementwise`, which would make the squares part of what computes x.
SpmdProgram fuse_squared_norms(const SpmdProgram& program);

/// Attribute of an optimizer update that runs beside what follows it: its operands and results stay in use
/// to the end of the step.
inline constexpr std::string_view kAside = "aside";

/// With one micro-batch: moves every update behind the node that makes its gradient, or behind the last
/// reader of the parameter it replaces, and gives it attribute kAside. Updates whose gradient comes out of
/// a collective, or whose results are read, stay.
SpmdProgram updates_aside(const SpmdProgram& program);

/// Joins the sums of all squares of tensors (`fuse_squared_norms`; for clipping gradients) into one node
/// per region and element type, placed as a bucket of collectives is.
SpmdProgram join_norms(const SpmdProgram& program);

/// Throws Bug naming the first node whose specs don't follow from one another by its operator, or whose
/// values are not on one mesh (of a transfer: on two), or the first update or metric of a wrong spec; also
/// what verify(Graph) throws.
void verify(const SpmdProgram& program);

/// Text form of a partitioned program: the mesh, then the graph's text with the specs of its results behind
/// every node; with several meshes also which of them the node is on.
std::string to_string(const SpmdProgram& program);

/// Number of calls, and bytes a device sends: of collectives in the ring algorithms (cost/collective.h).
struct Traffic {
  std::int64_t count = 0;
  double bytes = 0;
  bool operator==(const Traffic&) const = default;
};
/// Per collective kind, and for "transfer" (boxes sent), in one step; what runs once per micro-batch counts
/// as often. Of the device at coordinate 0 of its mesh, for transfers of any; the most over all meshes.
std::map<std::string, Traffic> traffic(const SpmdProgram& program);

}  // namespace alpa
