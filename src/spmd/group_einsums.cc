// src/spmd/group_einsums.cc — makes one node of einsums that share their left operand
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "kernels/plan/epilogue.h"
#include "merge_nodes.h"
#include "rewrite.h"
#include "src/ops/all_ops.h"
#include "src/spmd/einsum_group.h"
#include "src/tensor/kernel.h"

namespace alpa::spmd {
namespace {

/// A batch of more products gains nothing.
constexpr std::int64_t kMostMembers = 8;

/// The epilogue of an einsum that may be a member; nullopt for all other nodes.
std::optional<Epilogue> epilogue_of_member(const Node& node) {
  if (node.op == &ops::einsum) return Epilogue{};
  if (node.op != &ops::einsum_epilogue) return std::nullopt;
  const Epilogue epilogue = parse_epilogue(node.attributes.string("epilogue"));
  return epilogue.has_kept() ? std::nullopt : std::optional(epilogue);
}

/// One node of einsums, which have equal attributes and first operands.
Node grouped(const std::vector<const Node*>& nodes) {
  Node group = *nodes.front();
  group.attributes.set("epilogue", to_string(epilogue_of_member(group).value()));
  group.op = &ops::einsum_group;
  group.attributes.set("members", static_cast<std::int64_t>(nodes.size()));
  group.operands = {nodes.front()->operands[0]};
  group.results.clear();
  for (std::size_t i = 1; i < nodes.front()->operands.size(); ++i)
    for (const Node* node : nodes) group.operands.push_back(node->operands[i]);
  for (std::size_t o = 0; o < nodes.front()->results.size(); ++o)
    for (const Node* node : nodes) group.results.push_back(node->results[o]);
  group.name += fmt::format("+{}", nodes.size() - 1);
  return group;
}

/// The call of a node on the device at coordinate 0.
KernelCall local_call(const SpmdProgram& program, const Node& node) {
  KernelCall call;
  call.attributes = &node.attributes;
  const std::vector<int> first(program.mesh_of(node).num_axes(), 0);
  const auto local = [&](int value) {
    const TensorType& type = program.graph.type(value);
    const Shape shape =
        local_shape(type.shape, program.specs[value], program.mesh_of(value), first);
    return KernelTensor{nullptr, {type.dtype, shape}, {}, {}};
  };
  for (int value : node.operands) call.inputs.push_back(local(value));
  for (int value : node.results) call.outputs.push_back(local(value));
  return call;
}

/// Finds einsums that may be members of one group.
class Kinds {
 public:
  Kinds(const SpmdProgram& program, GroupsEinsums groups)
      : program_(program), groups_(groups), once_before_(once_before(program)) {}

  /// Equal texts: equal nodes but for the values behind the first operand, run equally often.
  std::optional<std::string> operator()(const Node& node) {
    const std::optional<Epilogue> epilogue = epilogue_of_member(node);
    if (!epilogue) return std::nullopt;
    std::string kind = fmt::format(
        "{} %{} {} layer {} {}", to_string(*epilogue), node.operands[0], name_of(node.region),
        node.layer, once_before_[program_.graph.values[node.results[0]].producer] ? 1 : 0);
    kind += " " + node.attributes.string("equation");
    for (const auto* values : {&node.operands, &node.results})
      for (int value : *values)
        kind += " " + to_string(program_.graph.type(value)) + to_string(program_.specs[value]);
    const auto [known, added] = fits_.try_emplace(kind);
    if (added) known->second = fits(node);
    return known->second ? std::optional(kind) : std::nullopt;
  }

 private:
  bool fits(const Node& node) const {
    const Node pair = grouped({&node, &node});
    return groups_(local_call(program_, pair));
  }

  const SpmdProgram& program_;
  GroupsEinsums groups_;
  std::vector<bool> once_before_;
  std::map<std::string, bool> fits_;
};

/// True if the result has its operand's bytes on every device.
bool renames_bytes(const SpmdProgram& program, const Node& node) {
  if (!node.op->alias) return false;
  const int from = node.operands[0], to = node.results[0];
  return shard_bytes(program.graph.type(from), program.specs[from], program.mesh_of(from)) ==
         shard_bytes(program.graph.type(to), program.specs[to], program.mesh_of(to));
}

/// The nodes that rename an operand's bytes stand right behind what makes it, if that is of their
/// region.
SpmdProgram renaming_early(const SpmdProgram& program) {
  const Graph& graph = program.graph;
  std::vector<int> after(graph.nodes.size()), order(graph.nodes.size());
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const Node& node = graph.nodes[n];
    after[n] = order[n] = n;
    if (!renames_bytes(program, node)) continue;
    const int producer = graph.values[node.operands[0]].producer;
    const Node& made = graph.nodes[producer];
    if (made.op != &ops::input && !is_transfer(made) && made.region == node.region)
      after[n] = after[producer];
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return after[a] < after[b]; });
  std::vector<Node> nodes;
  for (int n : order) nodes.push_back(graph.nodes[n]);
  return with_nodes(program, std::move(nodes));
}

}  // namespace

SpmdProgram group_einsums(const SpmdProgram& program, GroupsEinsums groups,
                          std::int64_t slack_bytes) {
  const SpmdProgram early = renaming_early(program);
  Kinds kinds(early, groups);
  return merge_nodes(
      early, {[&](const Node& node) { return kinds(node); },
              [](const Node&) { return std::int64_t{1}; }, kMostMembers, grouped, slack_bytes});
}

}  // namespace alpa::spmd
