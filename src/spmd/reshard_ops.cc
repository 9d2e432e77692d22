// src/spmd/reshard_ops.cc — operators that change a tensor's layout on the mesh, not its content
#include "alpa/base/error.h"
#include "alpa/spmd/program.h"

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

OpDef reshard_op(std::string_view name, bool in_place) {
  OpDef op;
  op.name = name;
  op.rule = same_rule;
  op.result_dtypes = same_dtypes;
  op.in_place = in_place;
  return op;
}

}  // namespace

const OpDef ops::all_reduce = reshard_op("all_reduce", true);
const OpDef ops::reduce_scatter = reshard_op("reduce_scatter", false);
const OpDef ops::all_gather = reshard_op("all_gather", false);
const OpDef ops::all_to_all = reshard_op("all_to_all", false);
const OpDef ops::slice_shard = reshard_op("slice_shard", false);
const OpDef ops::to_partial = reshard_op("to_partial", true);

bool is_collective(const Node& node) {
  return node.op == &ops::all_reduce || node.op == &ops::reduce_scatter || node.op == &ops::all_gather ||
         node.op == &ops::all_to_all;
}

CollectiveKind collective_kind(const Node& node) {
  if (node.op == &ops::all_reduce) return CollectiveKind::all_reduce;
  if (node.op == &ops::reduce_scatter) return CollectiveKind::reduce_scatter;
  if (node.op == &ops::all_gather) return CollectiveKind::all_gather;
  if (node.op == &ops::all_to_all) return CollectiveKind::all_to_all;
  bug("\"{}\" ({}) is no collective", node.name, node.op->name);
}

}  // namespace alpa
