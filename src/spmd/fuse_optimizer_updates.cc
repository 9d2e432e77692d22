// src/spmd/fuse_optimizer_updates.cc — merges optimizer updates into one node, and
// squared norms into another
#include <fmt/core.h>

#include <algorithm>

#include "live_bytes.h"
#include "merge_nodes.h"
#include "rewrite.h"
#include "src/ir/input.h"
#include "src/ir/members.h"
#include "src/ir/op_def.h"

namespace alpa::spmd {
namespace {

/// Members have equal settings, shared operands, region and mesh; gradients of concurrent ones
/// (kOverlapped) also come from one node.
std::optional<std::string> kind_of(const SpmdProgram& program, const Node& node, bool updates) {
  const Graph& graph = program.graph;
  if (!node.op->members || node.op->members->gradients != updates) return std::nullopt;
  std::string kind = fmt::format("{} {} {} on {}", node.op->name, to_string(node.attributes),
                                 name_of(node.region), program.mesh_index(node.results.front()));
  for (std::size_t i = node.operands.size() - node.op->members->shared; i < node.operands.size();
       ++i)
    kind += fmt::format(" %{}", node.operands[i]);
  if (node.attributes.contains(kOverlapped))
    kind += fmt::format(" of {}", graph.values[node.operands[num_states(node)]].producer);
  return kind;
}

/// Results that are read before they become state, as under dynamic loss scaling, are live beside
/// it: so many bytes of them at a time.
constexpr std::int64_t kMostGuardedBytes = 64 << 20;

SpmdProgram join(const SpmdProgram& program, bool updates) {
  const std::vector<std::vector<int>> readers = consumers(program.graph);
  const auto kind = [&](const Node& node) { return kind_of(program, node, updates); };
  const auto guarded_bytes = [&](const Node& node) {
    std::int64_t bytes = 0;
    for (int result : node.results)
      if (updates && !readers[result].empty()) bytes += program.graph.type(result).bytes();
    return bytes;
  };
  return merge_nodes(program, {kind, guarded_bytes, kMostGuardedBytes, joined});
}

bool is_metric(const Graph& graph, int value) {
  return std::any_of(graph.metrics.begin(), graph.metrics.end(),
                     [&](const Metric& metric) { return metric.value == value; });
}

/// Moves collectives whose only use is a new state to the end of `program`, where that does not
/// raise the peak of live bytes. Updates then need not precede the gathers of each other's results.
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
    const bool waits = is_last(nodes[n]) && live.grow(n, {{n + 1, end, live.freed_by(n)}});
    (waits ? late : early).push_back(nodes[n]);
  }
  early.insert(early.begin(), late.begin(), late.end());
  std::reverse(early.begin(), early.end());
  return with_nodes(program, std::move(early));
}

}  // namespace

SpmdProgram fuse_optimizer_updates(const SpmdProgram& program) {
  return join(gathers_last(program), true);
}

SpmdProgram fuse_squared_norms(const SpmdProgram& program) { return join(program, false); }

}  // namespace alpa::spmd
