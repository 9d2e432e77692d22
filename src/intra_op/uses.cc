// src/intra_op/uses.cc — who reads a value, in which region and how often
#include "uses.h"

#include "alpa/base/error.h"

namespace alpa {
namespace {

Use use_of(const Graph& graph, const std::vector<int>& accumulators, int value, int id, int operand) {
  const bool apply = region_of_use(graph, id) == Region::apply;
  return {id, operand, phase_of_use(graph, id), apply ? 1 : graph.num_micro_batches,
          source_of_use(graph, accumulators, value, id)};
}

}  // namespace

std::vector<int> accumulators_of_values(const Graph& graph) {
  std::vector<int> accumulators(graph.values.size(), -1);
  if (graph.num_micro_batches == 1) return accumulators;
  for (const Update& update : graph.updates) {
    const Input* input = find_input(graph, update.input);
    if (input && input->kind == InputKind::accumulator) accumulators[update.value] = update.input;
  }
  return accumulators;
}

int phase_of_use(const Graph& graph, int use) {
  return graph.num_micro_batches > 1 && region_of_use(graph, use) == Region::apply ? 1 : 0;
}

int source_of_use(const Graph& graph, const std::vector<int>& accumulators, int value, int use) {
  return accumulators[value] >= 0 && phase_of_use(graph, use) == 1 ? accumulators[value] : value;
}

Region region_of_use(const Graph& graph, int use) {
  const int num_nodes = static_cast<int>(graph.nodes.size());
  if (use < num_nodes) return graph.nodes[use].region;
  const int update = use - num_nodes;
  if (update >= static_cast<int>(graph.updates.size())) return Region::apply;
  const Input* input = find_input(graph, graph.updates[update].input);
  return input && input->kind == InputKind::accumulator ? Region::backward : Region::apply;
}

std::vector<std::vector<Use>> uses_of_values(const Graph& graph) {
  std::vector<std::vector<Use>> uses(graph.values.size());
  const std::vector<int> accumulators = accumulators_of_values(graph);
  const auto add = [&](int value, int id, int operand) {
    uses[value].push_back(use_of(graph, accumulators, value, id, operand));
  };
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const std::vector<int>& operands = graph.nodes[n].operands;
    for (int j = 0; j < static_cast<int>(operands.size()); ++j) add(operands[j], n, j);
  }
  for (int u = 0; u < static_cast<int>(graph.updates.size()); ++u)
    add(graph.updates[u].value, use_of_update(graph, u), -1);
  for (int m = 0; m < static_cast<int>(graph.metrics.size()); ++m)
    add(graph.metrics[m].value, use_of_metric(graph, m), -1);
  return uses;
}

ShardingSpec wanted_spec(const Graph& graph, const NodeClasses& classes,
                         const std::vector<Strategy>& strategies, const DeviceMesh& mesh, const Use& use) {
  const int num_nodes = static_cast<int>(graph.nodes.size()), update = use.id - num_nodes;
  if (use.id < num_nodes)
    return operand_spec(classes.of(use.id).rule, strategies[use.id], mesh, use.operand);
  if (update >= static_cast<int>(graph.updates.size())) return ShardingSpec::replicated();
  const int input = graph.values[graph.updates[update].input].producer;
  return result_spec(classes.of(input).rule, strategies[input], mesh);
}

std::string use_text(const Graph& graph, int use) {
  const int num_nodes = static_cast<int>(graph.nodes.size()),
            num_updates = static_cast<int>(graph.updates.size());
  if (use < num_nodes) return fmt::format("{} \"{}\"", graph.nodes[use].op->name, graph.nodes[use].name);
  if (use < num_nodes + num_updates)
    return fmt::format("the update of \"{}\"", graph.producer(graph.updates[use - num_nodes].input).name);
  return fmt::format("metric \"{}\"", graph.metrics[use - num_nodes - num_updates].name);
}

}  // namespace alpa
