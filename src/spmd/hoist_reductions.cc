// src/spmd/hoist_reductions.cc — moves reductions to where their operands are ready
#include <algorithm>
#include <numeric>

#include "rewrite.h"
#include "src/ir/op_def.h"

namespace alpa::spmd {
namespace {

/// The target of a move: after the node at this place, in this region.
struct MoveTarget {
  int after;
  Region region;
};

/// The first backward node, or -1.
int backward_start(const Graph& graph) {
  const auto first = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                  [](const Node& node) { return node.region == Region::backward; });
  return first == graph.nodes.end() ? -1 : static_cast<int>(first - graph.nodes.begin());
}

/// Per node, whether no node reads its results: those of reductions are metrics.
std::vector<bool> unread(const Graph& graph) {
  std::vector<bool> unread(graph.nodes.size(), true);
  for (const Node& node : graph.nodes)
    for (int value : node.operands) unread[graph.values[value].producer] = false;
  return unread;
}

/// Reductions follow the last producer of their operands. With several micro-batches they do not
/// leave their region, which may run once for all of them. With one, a metric of forward waits for
/// backward, whose reductions take it along.
std::vector<MoveTarget> places_of(const SpmdProgram& program) {
  const Graph& graph = program.graph;
  const std::vector<bool> metric = unread(graph);
  const int backward =
      graph.num_micro_batches == 1 && program.meshes.size() == 1 ? backward_start(graph) : -1;
  std::vector<MoveTarget> places;
  int apply_start = -1;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const Node& node = graph.nodes[n];
    if (apply_start < 0 && node.region == Region::apply) apply_start = n;
    places.push_back({n, node.region});
    if (!is_reduction(node)) continue;
    const bool once_per_step = node.region == Region::apply && graph.num_micro_batches > 1;
    MoveTarget place = once_per_step ? MoveTarget{apply_start - 1, Region::apply}
                                     : MoveTarget{-1, Region::forward};
    for (int value : node.operands) {
      const MoveTarget& producer = places[graph.values[value].producer];
      place.after = std::max(place.after, producer.after);
      place.region = std::max(place.region, producer.region);
    }
    if (metric[n] && place.region == Region::forward && place.after < backward)
      place = {backward, Region::backward};
    places.back() = place;
  }
  return places;
}

}  // namespace

bool is_reduction(const Node& node) { return node.op->reshard && reduces(*node.op->reshard); }

SpmdProgram hoist_reductions(const SpmdProgram& program) {
  const Graph& graph = program.graph;
  const std::vector<MoveTarget> places = places_of(program);
  std::vector<int> order(graph.nodes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return places[a].after < places[b].after; });
  std::vector<Node> nodes;
  for (int n : order) {
    nodes.push_back(graph.nodes[n]);
    nodes.back().region = places[n].region;
  }
  return with_nodes(program, std::move(nodes));
}

}  // namespace alpa::spmd
