// src/spmd/reshard_ops.cc — operators that change a tensor's layout on the mesh, not its content
#include "alpa/base/error.h"
#include "src/ir/op_def.h"
#include "src/ir/rule.h"
#include "src/spmd/program.h"

namespace alpa {
namespace {

/// Every dimension of every tensor is a factor of its own; results equal operands.
Rule same_rule(const OpQuery& query) {
  Rule rule;
  for (const TensorType& type : query.operands) {
    DimFactors dims;
    for (std::int64_t extent : type.shape) {
      dims.push_back({static_cast<int>(rule.factors.size())});
      rule.factors.push_back({extent});
    }
    rule.operands.push_back(dims);
    rule.results.push_back(std::move(dims));
  }
  return rule;
}

std::vector<DType> same_dtypes(const OpQuery& query) {
  std::vector<DType> dtypes;
  for (const TensorType& type : query.operands) dtypes.push_back(type.dtype);
  return dtypes;
}

OpDef reshard_op(std::string_view name, std::optional<CollectiveKind> kind,
                 InPlace in_place = InPlace::none) {
  OpDef op;
  op.name = name;
  op.rule = same_rule;
  op.result_dtypes = same_dtypes;
  op.in_place = in_place;
  op.reshard = kind;
  return op;
}

}  // namespace

const OpDef ops::all_reduce = reshard_op("all_reduce", CollectiveKind::all_reduce, InPlace::paired);
const OpDef ops::reduce_scatter = reshard_op("reduce_scatter", CollectiveKind::reduce_scatter);
const OpDef ops::all_gather = reshard_op("all_gather", CollectiveKind::all_gather);
const OpDef ops::all_to_all = reshard_op("all_to_all", CollectiveKind::all_to_all);
const OpDef ops::slice_shard = reshard_op("slice_shard", CollectiveKind::slice);
const OpDef ops::to_partial = reshard_op("to_partial", CollectiveKind::to_partial, InPlace::paired);
const OpDef ops::transfer = reshard_op("transfer", std::nullopt);

}  // namespace alpa

namespace alpa::spmd {

std::span<const OpDef* const> partitioned_ops() {
  static constexpr const OpDef* kOps[] = {
      &ops::all_reduce, &ops::reduce_scatter,  &ops::all_gather,
      &ops::all_to_all, &ops::slice_shard,     &ops::to_partial,
      &ops::fused,      &ops::einsum_epilogue, &ops::transfer,
  };
  return kOps;
}

const OpDef& reshard_op(CollectiveKind kind) {
  for (const OpDef* op : partitioned_ops())
    if (op->reshard == kind) return *op;
  bug("reshard kind {} has no operator", name_of(kind));
}

bool is_collective(const Node& node) { return node.op->reshard && exchanges(*node.op->reshard); }

bool is_transfer(const Node& node) { return node.op == &ops::transfer; }

cost::MeshLayout source_of(const SpmdProgram& program, const Node& transfer) {
  const int value = transfer.operands[0];
  return {program.mesh_of(value), program.specs[value]};
}

cost::MeshLayout target_of(const SpmdProgram& program, const Node& transfer) {
  const int value = transfer.results[0];
  return {program.mesh_of(value), program.specs[value]};
}

}  // namespace alpa::spmd
