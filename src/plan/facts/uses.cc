// The readers of each value, with region and frequency
#include "src/plan/facts/uses.h"

#include "alpa/base/error.h"
#include "src/ir/lasting.h"
#include "src/ir/op_def.h"

namespace alpa {
namespace {

intra_op::Use use_of(const Graph& graph, const std::vector<int>& accumulators, bool held, int value,
                     UseId id, int operand) {
  const int runs = region_of_use(graph, id) == Region::apply ? 1 : graph.num_micro_batches;
  return {.id = id,
          .operand = operand,
          .phase = intra_op::phase_of_use(graph, id),
          .runs = runs,
          .copy_runs = held ? 1 : runs,
          .source = intra_op::source_of_use(graph, accumulators, value, id)};
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

int intra_op::phase_of_use(const Graph& graph, UseId use) {
  return graph.num_micro_batches > 1 && region_of_use(graph, use) == Region::apply ? 1 : 0;
}

int intra_op::source_of_use(const Graph& graph, const std::vector<int>& accumulators, int value,
                            UseId use) {
  return accumulators[value] >= 0 && intra_op::phase_of_use(graph, use) == 1 ? accumulators[value]
                                                                             : value;
}

Region region_of_use(const Graph& graph, UseId use) {
  switch (use.kind) {
    case UseKind::node: return graph.nodes[use.index].region;
    case UseKind::update: {
      const Input* input = find_input(graph, graph.updates[use.index].input);
      return input && input->kind == InputKind::accumulator ? Region::backward : Region::apply;
    }
    case UseKind::metric: return Region::apply;
    case UseKind::output: return graph.producer(graph.outputs[use.index].value).region;
  }
  bug("unknown kind of use {}", static_cast<int>(use.kind));
}

std::vector<std::vector<intra_op::Use>> intra_op::uses_of_values(const Graph& graph,
                                                                 bool copies_once) {
  std::vector<std::vector<intra_op::Use>> uses(graph.values.size());
  const std::vector<int> accumulators = accumulators_of_values(graph);
  const std::vector<bool> held = held_values(graph);
  const auto add = [&](int value, UseId id, int operand) {
    uses[value].push_back(
        use_of(graph, accumulators, copies_once && held[value], value, id, operand));
  };
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const std::vector<int>& operands = graph.nodes[n].operands;
    for (int j = 0; j < static_cast<int>(operands.size()); ++j)
      add(operands[j], {UseKind::node, n}, j);
  }
  for (int u = 0; u < static_cast<int>(graph.updates.size()); ++u)
    add(graph.updates[u].value, {UseKind::update, u}, -1);
  for (int m = 0; m < static_cast<int>(graph.metrics.size()); ++m)
    add(graph.metrics[m].value, {UseKind::metric, m}, -1);
  for (int o = 0; o < static_cast<int>(graph.outputs.size()); ++o)
    add(graph.outputs[o].value, {UseKind::output, o}, -1);
  return uses;
}

std::string intra_op::use_text(const Graph& graph, UseId use) {
  switch (use.kind) {
    case UseKind::node:
      return fmt::format("{} \"{}\"", graph.nodes[use.index].op->name, graph.nodes[use.index].name);
    case UseKind::update:
      return fmt::format("the update of \"{}\"",
                         graph.producer(graph.updates[use.index].input).name);
    case UseKind::metric: return fmt::format("metric \"{}\"", graph.metrics[use.index].name);
    case UseKind::output: return fmt::format("output \"{}\"", graph.outputs[use.index].name);
  }
  bug("unknown kind of use {}", static_cast<int>(use.kind));
}

}  // namespace alpa
