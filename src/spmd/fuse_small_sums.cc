// src/spmd/fuse_small_sums.cc — additions to small accumulators become members of one node
#include <algorithm>

#include "kernels/cpu/kernels.h"
#include "rewrite.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

std::vector<DType> dtypes_of_sums(const OpQuery& query) {
  std::vector<DType> dtypes;
  for (std::size_t i = 0; i < query.operands.size() / 2; ++i)
    dtypes.push_back(query.operands[i].dtype);
  return dtypes;
}

}  // namespace

const OpDef ops::multi_tensor_add = {
    .name = "multi_tensor_add",
    .dims = "..., ... -> ...",
    .result_dtypes = dtypes_of_sums,
    .flops_per_point = 1,
    .linear = {0b11},
    .in_place = InPlace::paired,
    .members = Members{.each = 1, .gradients = true},
    .cpu = &cpu::multi_tensor_add,
};

namespace spmd {
namespace {

/// A larger accumulator is worth a launch.
constexpr std::int64_t kMostBytes = 1 << 20;

bool is_small(const SpmdProgram& program, int value) {
  return shard_bytes(program.graph.type(value), program.specs[value], program.mesh_of(value)) <
         kMostBytes;
}

/// The value that this update adds to its accumulator, before conversion to the accumulator's
/// type; -1 if the new content is not such a sum.
int added_to(const Graph& graph, const Update& update) {
  const Node& sum = graph.producer(update.value);
  if (find_input(graph, update.input)->kind != InputKind::accumulator || sum.op != &ops::add)
    return -1;
  const bool second = sum.operands[1] == update.input;
  if (!second && sum.operands[0] != update.input) return -1;
  const int x = sum.operands[second ? 0 : 1];
  if (graph.type(x).shape != graph.type(update.input).shape) return -1;
  const Node& producer = graph.producer(x);
  return producer.op == &ops::cast ? producer.operands[0] : x;
}

}  // namespace

SpmdProgram fuse_small_sums(const SpmdProgram& program) {
  std::vector<Node> nodes = program.graph.nodes;
  for (const Update& update : program.graph.updates) {
    const int x = added_to(program.graph, update);
    if (x < 0 || !is_small(program, update.input)) continue;
    Node& sum = nodes[program.graph.values[update.value].producer];
    sum.op = &ops::multi_tensor_add;
    sum.operands = {update.input, x};
  }
  return with_nodes(program, std::move(nodes));
}

}  // namespace spmd
}  // namespace alpa
