// src/search/stages/recomputable.cc — takes what is computed again out of a graph
#include "src/search/stages/recomputable.h"

#include <algorithm>
#include <map>
#include <set>

#include "alpa/base/error.h"
#include "src/base/infinity.h"
#include "src/ir/rewrite.h"
#include "src/ir/stages.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/plan/facts/graph_facts.h"

namespace alpa::inter_op {
namespace {

/// Results of nodes that are computed again, which other nodes read.
std::set<int> read_by_gradients(const Graph& graph) {
  std::set<int> values;
  for (const Node& node : graph.nodes)
    for (const int value : node.operands)
      if (!node.again && graph.producer(value).again) values.insert(value);
  return values;
}

RecomputableBytes bytes_of(const Graph& graph, const std::set<int>& read, int devices,
                           const cost::CostModel& model) {
  const intra_op::GraphFacts facts(graph);
  std::map<int, double> seconds, most;  // by layer that is computed again
  for (int n = 0; n < std::ssize(graph.nodes); ++n)
    if (graph.nodes[n].again)
      seconds[graph.nodes[n].remat] +=
          intra_op::least_node_seconds(facts.classes.of(n), facts.classes.share_of(n), devices,
                                       model)
              .shared;
  RecomputableBytes result{.of_layers = std::vector<double>(num_layers(graph), 0),
                           .seconds_per_byte = kInfinity};
  for (const int value : read)
    most[graph.producer(value).remat] += static_cast<double>(graph.type(value).bytes());
  for (const int value : intra_op::recomputed_values(facts))
    result.of_layers[std::max(graph.producer(value).layer, 0)] +=
        static_cast<double>(graph.type(value).bytes());
  for (const auto& [layer, bytes] : most)
    result.seconds_per_byte = std::min(result.seconds_per_byte, seconds[layer] / bytes);
  return result;
}

}  // namespace

RecomputableStep recomputable(const Graph& graph, int devices, const cost::CostModel& model) {
  const std::set<int> read = read_by_gradients(graph);
  RecomputableStep step{graph, bytes_of(graph, read, devices, model)};
  std::vector<Node> nodes;
  for (const Node& node : graph.nodes) {
    if (!node.again) {
      nodes.push_back(node);
      continue;
    }
    for (const int value : node.results) {
      if (!read.contains(value)) continue;
      const std::string name = fmt::format("{} {}", node.name, value);
      nodes.push_back({.op = &ops::input,
                       .attributes = {{"kind", std::string(name_of(InputKind::boundary))},
                                      {"dtype", graph.type(value).dtype},
                                      {"shape", graph.type(value).shape}},
                       .operands = {},
                       .results = {value},
                       .name = name,
                       .layer = node.layer});
      step.graph.inputs.push_back({.value = value, .kind = InputKind::boundary, .name = name});
    }
  }
  std::ranges::sort(step.graph.inputs, {}, &Input::value);
  step.graph = with_nodes(step.graph, std::move(nodes)).graph;
  return step;
}

}  // namespace alpa::inter_op
