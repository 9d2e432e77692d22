// src/ir/region_rules.cc — checks which regions read each other's values
#include "region_rules.h"

#include <fmt/core.h>

#include "src/ir/input.h"
#include "src/ir/op_def.h"

namespace alpa {
namespace {

/// Values that apply may read from outside when it runs once for several micro-batches.
std::vector<bool> readable_by_apply(const Graph& graph) {
  std::vector<bool> readable(graph.values.size(), false);
  for (const Node& node : graph.nodes)
    if (node.region == Region::apply)
      for (int value : node.results) readable[value] = true;
  for (const Input& input : graph.inputs)
    readable[input.value] =
        input.kind == InputKind::state || input.kind == InputKind::shared ||
        input.kind == InputKind::scalar ||
        (input.kind == InputKind::boundary && graph.producer(input.value).region == Region::apply);
  for (const Update& update : graph.updates) {
    const Input* input = find_input(graph, update.input);
    if (input && input->kind == InputKind::accumulator) readable[update.value] = true;
  }
  return readable;
}

std::string order_mistake(const Graph& graph, const Node& node) {
  for (int value : node.operands) {
    const Node& producer = graph.producer(value);
    const bool everywhere = producer.op == &ops::input && producer.region == Region::forward;
    if (everywhere || producer.region <= node.region) continue;
    return fmt::format(
        "{} runs in region {} but reads the result of {}, which runs later, in region {}",
        describe(node), name_of(node.region), describe(producer), name_of(producer.region));
  }
  return {};
}

std::string apply_mistake(const Graph& graph, const std::string& reader, int value) {
  return fmt::format(
      "{} runs once per step but reads the result of {}, of which there is one for each of {} "
      "micro-batches; add it up in an accumulator and read that accumulator's update, "
      "as mean_over_micro_batches does",
      reader, describe(graph.producer(value)), graph.num_micro_batches);
}

std::string micro_batch_mistake(const Graph& graph) {
  const std::vector<bool> readable = readable_by_apply(graph);
  for (const Node& node : graph.nodes)
    if (node.region == Region::apply)
      for (int value : node.operands)
        if (!readable[value]) return apply_mistake(graph, describe(node), value);
  for (const Update& update : graph.updates) {
    const Input* input = find_input(graph, update.input);
    if (input && input->kind == InputKind::state && !readable[update.value])
      return apply_mistake(graph, fmt::format("the update of state \"{}\"", input->name),
                           update.value);
  }
  for (const Metric& metric : graph.metrics)
    if (!readable[metric.value])
      return apply_mistake(graph, fmt::format("metric \"{}\"", metric.name), metric.value);
  return {};
}

}  // namespace

std::string describe(const Node& node) {
  return fmt::format("{} \"{}\"", node.op->name, node.name);
}

std::string region_mistake(const Graph& graph) {
  for (const Node& node : graph.nodes)
    if (std::string mistake = order_mistake(graph, node); !mistake.empty()) return mistake;
  for (const Update& update : graph.updates) {
    const Input* input = find_input(graph, update.input);
    if (input && input->kind == InputKind::accumulator &&
        graph.producer(update.value).region == Region::apply)
      return fmt::format(
          "the update of accumulator \"{}\" runs in region apply; accumulate in region forward or "
          "backward",
          input->name);
  }
  return graph.num_micro_batches > 1 ? micro_batch_mistake(graph) : std::string{};
}

}  // namespace alpa
