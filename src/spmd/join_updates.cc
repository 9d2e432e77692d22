// src/spmd/join_updates.cc — one node updates all parameters
#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "alpa/ops/all_ops.h"
#include "join_nodes.h"
#include "joint_ops.h"
#include "live_bytes.h"
#include "rewrite.h"

namespace alpa {
namespace {

/// Members have equal settings and the same scalars; those that run aside, gradients of one node.
std::optional<std::string> kind_of(const Graph& graph, const Node& node) {
  const std::optional<JointUpdate> joint = joint_update_of(*node.op);
  if (!joint || node.region != Region::apply) return std::nullopt;
  std::string kind = fmt::format("{} {}", node.op->name, to_string(node.attributes));
  for (std::size_t i = joint->states + 1; i < node.operands.size(); ++i)
    kind += fmt::format(" %{}", node.operands[i]);
  if (node.attributes.contains(kAside))
    kind += fmt::format(" of {}", graph.values[node.operands[joint->states]].producer);
  return kind;
}

Node joined(const std::vector<const Node*>& members) {
  const JointUpdate joint = *joint_update_of(*members.front()->op);
  const auto states = static_cast<std::ptrdiff_t>(joint.states);
  Node result = *members.front();
  std::vector<int> gradients;
  result.op = joint.joint;
  result.operands.clear(), result.results.clear();
  for (const Node* member : members) {
    const auto first = member->operands.begin();
    result.operands.insert(result.operands.end(), first, first + states);
    gradients.push_back(first[states]);
    result.results.insert(result.results.end(), member->results.begin(), member->results.end());
  }
  const std::vector<int>& last = members.back()->operands;
  result.operands.insert(result.operands.end(), gradients.begin(), gradients.end());
  result.operands.insert(result.operands.end(), last.begin() + states + 1, last.end());
  result.name += fmt::format("+{}", members.size() - 1);
  return result;
}

bool is_metric(const Graph& graph, int value) {
  return std::any_of(graph.metrics.begin(), graph.metrics.end(),
                     [&](const Metric& metric) { return metric.value == value; });
}

/// `program` with collectives whose results are new states and nothing else at the end, where their
/// operands may wait for them without raising the peak of what lives at once: then updates need not stand
/// before the gathers of one another's results.
SpmdProgram gathers_last(const SpmdProgram& program) {
  const std::vector<Node>& nodes = program.graph.nodes;
  const std::vector<std::vector<int>> readers = consumers(program.graph);
  const int end = static_cast<int>(nodes.size());
  const auto is_last = [&](const Node& node) {
    return is_collective(node) && node.region == Region::apply &&
           std::all_of(node.results.begin(), node.results.end(), [&](int value) {
             return readers[value].empty() && !is_metric(program.graph, value);
           });
  };
  LiveBytes live(program);
  std::vector<Node> early, late;
  for (int n = end - 1; n >= 0; --n) {
    const bool waits = is_last(nodes[n]) && live.grow({{n + 1, end, live.freed_by(n)}});
    (waits ? late : early).push_back(nodes[n]);
  }
  early.insert(early.begin(), late.begin(), late.end());
  std::reverse(early.begin(), early.end());
  return with_nodes(program, std::move(early));
}

}  // namespace

SpmdProgram join_updates(const SpmdProgram& program) {
  const auto size = [](const Node&) { return std::int64_t{1}; };
  const SpmdProgram ordered = gathers_last(program);
  const auto kind = [&](const Node& node) { return kind_of(ordered.graph, node); };
  return join_nodes(ordered, {kind, size, std::numeric_limits<std::int64_t>::max(), joined});
}

}  // namespace alpa
