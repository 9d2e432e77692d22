// src/spmd/reshard_ops.cc — operators that change a tensor's layout on the mesh, not its content
#include "alpa/base/error.h"
#include "rewrite.h"
#include "src/ir/op_def.h"
#include "src/ir/rule.h"
#include "src/plan/cost/cost_model.h"
#include "src/spmd/einsum_group.h"
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
      &ops::all_reduce,   &ops::reduce_scatter,   &ops::all_gather, &ops::all_to_all,
      &ops::slice_shard,  &ops::to_partial,       &ops::fused,      &ops::einsum_epilogue,
      &ops::einsum_group, &ops::multi_tensor_add, &ops::transfer,
  };
  return kOps;
}

const OpDef& reshard_op(CollectiveKind kind) {
  for (const OpDef* op : partitioned_ops())
    if (op->reshard == kind) return *op;
  bug("reshard kind {} has no operator", name_of(kind));
}

bool is_collective(const Node& node) { return node.op->reshard && exchanges(*node.op->reshard); }

bool is_to_partial(const Node& node) {
  return node.op->reshard && def_of(*node.op->reshard).to == AxisPlacement::Kind::partial;
}

bool is_transfer(const Node& node) { return node.op == &ops::transfer; }

Attributes attributes_of(const ReshardStep& step) {
  Attributes attributes{{"axes", std::vector<std::int64_t>(step.axes.begin(), step.axes.end())}};
  if (step.dim >= 0) attributes.set("dims", std::vector<std::int64_t>{step.dim});
  if (step.kind == CollectiveKind::all_to_all)
    attributes.set("from_dim", std::int64_t{step.from_dim});
  return attributes;
}

cost::MeshLayout source_of(const SpmdProgram& program, const Node& transfer) {
  const int value = transfer.operands[0];
  return {program.mesh_of(value), program.specs[value]};
}

cost::MeshLayout target_of(const SpmdProgram& program, const Node& transfer) {
  const int value = transfer.results[0];
  return {program.mesh_of(value), program.specs[value]};
}

namespace {

cost::TransferRoute route_of(const Node& transfer) {
  const auto number = [&](std::string_view name) {
    return transfer.attributes.contains(name) ? static_cast<int>(transfer.attributes.integer(name))
                                              : 0;
  };
  return {number("devices_per_host"), number("chunks")};
}

}  // namespace

int add_value(SpmdProgram& program, const TensorType& type, int index, const ShardingSpec& spec,
              int mesh) {
  program.graph.values.push_back({type, static_cast<int>(program.graph.nodes.size()), index});
  program.specs.push_back(spec);
  if (program.meshes.size() > 1) program.mesh_of_value.push_back(mesh);
  return static_cast<int>(program.specs.size()) - 1;
}

int append_reshard(SpmdProgram& program, int value, const ShardingSpec& spec, int mesh, Node node) {
  const int result = add_value(program, program.graph.type(value), 0, spec, mesh);
  node.operands = {value};
  node.results = {result};
  program.graph.nodes.push_back(std::move(node));
  return result;
}

int append_transfer(SpmdProgram& program, int value, int mesh, const cost::PlannedTransfer& way,
                    Node node) {
  const std::string name = node.name;
  node.op = &ops::transfer;
  node.attributes = {{"strategy", std::string(cost::name_of(way.strategy))}};
  const auto set = [&](const char* attribute, std::int64_t number) {
    if (number > 0) node.attributes.set(attribute, number);
  };
  set("devices_per_host", way.route.devices_per_host);
  set("chunks", way.route.chunks);
  set("reshards", static_cast<std::int64_t>(way.gather.steps.size()));
  value = append_reshard(program, value, way.arrives, mesh, node);
  for (const ReshardStep& step : way.gather.steps) {
    node.op = &reshard_op(step.kind);
    node.attributes = attributes_of(step);
    node.name = name + "." + std::string(node.op->name);
    value = append_reshard(program, value, step.to, mesh, node);
  }
  return value;
}

std::vector<cost::TransferTile> transfer_tiles(const SpmdProgram& program, const Node& transfer) {
  return cost::transfer_tiles(program.graph.type(transfer.results[0]), source_of(program, transfer),
                              target_of(program, transfer), route_of(transfer));
}

cost::PlannedTransfer planned_transfer(const SpmdProgram& program, int n,
                                       cost::TransferPrices& prices) {
  const Node& transfer = program.graph.nodes[n];
  const cost::MeshLayout to = target_of(program, transfer);
  cost::PlannedTransfer planned;
  planned.route = route_of(transfer);
  planned.arrives = to.spec;
  const TensorType& type = program.graph.type(transfer.results[0]);
  planned.cost = prices.cost(type, source_of(program, transfer), to, planned.route);
  for (const auto strategy :
       {cost::TransferStrategy::local_all_gather, cost::TransferStrategy::local_reshard,
        cost::TransferStrategy::broadcast})
    if (transfer.attributes.contains("strategy") &&
        transfer.attributes.string("strategy") == cost::name_of(strategy))
      planned.strategy = strategy;
  if (!transfer.attributes.contains("reshards")) return planned;
  int value = transfer.results[0];
  for (auto left = transfer.attributes.integer("reshards"); left > 0; --left) {
    const auto reader = std::find_if(
        program.graph.nodes.begin() + n, program.graph.nodes.end(),
        [value](const Node& node) { return node.op->reshard && node.operands[0] == value; });
    invariant(reader != program.graph.nodes.end(), "transfer \"{}\" lacks its reshards",
              transfer.name);
    value = reader->results[0];
  }
  planned.gather = cost::find_reshard(type, to.spec, program.specs[value], to.mesh,
                                      cost::CostModel::of(prices.cluster()).reshard)
                       .value();
  planned.cost.seconds += planned.gather.seconds;
  return planned;
}

}  // namespace alpa::spmd
