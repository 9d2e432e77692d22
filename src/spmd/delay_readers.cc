// src/spmd/delay_readers.cc — lets more reductions wait for each other
#include <algorithm>
#include <map>
#include <utility>

#include "live_bytes.h"
#include "rewrite.h"
#include "src/ir/op_def.h"

namespace alpa::spmd {
namespace {

/// Reductions that a reader lets pass where memory does not allow it to wait for all.
constexpr std::size_t kReductionsBehind = 2;

/// Per node, the place of the last one of its region on its mesh.
std::vector<int> region_ends(const SpmdProgram& program) {
  const std::vector<Node>& nodes = program.graph.nodes;
  std::map<std::pair<int, Region>, int> ends;
  std::vector<int> end_of(nodes.size());
  for (int n = static_cast<int>(nodes.size()) - 1; n >= 0; --n)
    end_of[n] = ends.try_emplace({program.mesh_index(nodes[n].results[0]), nodes[n].region}, n)
                    .first->second;
  return end_of;
}

}  // namespace

SpmdProgram delay_readers(const SpmdProgram& program, std::int64_t slack_bytes) {
  const Graph& graph = program.graph;
  LiveBytes live(program, slack_bytes);
  const std::vector<int> ends = region_ends(program);
  const std::vector<std::vector<int>> readers = consumers(graph);
  const auto is_read_by = [&](const Node& node, int end) {
    return std::any_of(node.results.begin(), node.results.end(), [&](int value) {
      return !readers[value].empty() && readers[value].front() <= end;
    });
  };
  const auto reads_reduction = [&](const Node& node) {
    return std::any_of(node.operands.begin(), node.operands.end(),
                       [&](int value) { return is_reduction(graph.producer(value)); });
  };
  // Operands are held longer, results made later.
  const auto growth = [&](int n, int place) -> std::vector<Growth> {
    return {{n + 1, place, live.freed_by(n) - live.allocated_by(n)},
            {place, place + 1, live.freed_by(n)}};
  };
  // The node that a reader moves behind: the last of its region, or as late as memory allows of
  // the next reductions, beside which the one that it reads may run. Its own: it stays.
  const auto place_of = [&](int n, int end) {
    std::vector<int> places = {end};
    for (int at = n + 1; at < end && places.size() <= kReductionsBehind; ++at)
      if (is_reduction(graph.nodes[at]) && program.mesh_index(graph.nodes[at].results[0]) ==
                                               program.mesh_index(graph.nodes[n].results[0]))
        places.insert(places.begin() + 1, at);
    const auto place =
        std::ranges::find_if(places, [&](int at) { return at > n && live.grow(n, growth(n, at)); });
    return place == places.end() ? n : *place;
  };
  std::vector<Node> nodes;
  std::vector<std::vector<int>> delayed(graph.nodes.size());  // by the node they follow
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const Node& node = graph.nodes[n];
    const int end = ends[n];
    const bool may_wait =
        node.region != Region::apply && n < end && !is_read_by(node, end) && reads_reduction(node);
    const int place = may_wait ? place_of(n, end) : n;
    if (place > n)
      delayed[place].push_back(n);
    else
      nodes.push_back(node);
    for (int earlier : delayed[n]) nodes.push_back(graph.nodes[earlier]);
  }
  return with_nodes(program, std::move(nodes));
}

}  // namespace alpa::spmd
