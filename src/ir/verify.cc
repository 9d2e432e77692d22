// src/ir/verify.cc — checks the invariants of a graph
#include <set>

#include "alpa/base/error.h"
#include "alpa/ir/graph.h"
#include "region_rules.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"

namespace alpa {
namespace {

void verify_operands(const Graph& graph, const Node& node, const std::vector<bool>& defined) {
  for (int value : node.operands) {
    if (value < 0 || value >= static_cast<int>(graph.values.size()))
      bug("graph: {} reads value {} of {}", describe(node), value, graph.values.size());
    if (!defined[value])
      bug("graph: {} reads value {} before it is defined", describe(node), value);
  }
}

void verify_result(const Graph& graph, const Node& node, int index, const ValueInfo& expected,
                   std::vector<bool>& defined) {
  const int value = node.results[index];
  if (value < 0 || value >= static_cast<int>(graph.values.size()) || defined[value])
    bug("graph: {} defines value {}, which is out of range or defined twice", describe(node),
        value);
  const ValueInfo& recorded = graph.values[value];
  if (recorded != expected)
    bug("graph: result {} of {} is recorded as {} of node {}, not {} of node {}", index,
        describe(node), to_string(recorded.type), recorded.producer, to_string(expected.type),
        expected.producer);
  defined[value] = true;
}

void verify_results(const Graph& graph, int n, std::vector<bool>& defined) {
  const Node& node = graph.nodes[n];
  const std::vector<TensorType> operands = operand_types(graph, node);
  const std::vector<TensorType> types = result_types(*node.op, {operands, node.attributes});
  if (types.size() != node.results.size())
    bug("graph: {} has {} results, not {}", describe(node), node.results.size(), types.size());
  for (int i = 0; i < static_cast<int>(types.size()); ++i)
    verify_result(graph, node, i, {types[i], n, i}, defined);
}

void verify_inputs(const Graph& graph) {
  std::size_t next = 0;
  std::set<std::string> names, parameters;
  for (const Node& node : graph.nodes) {
    if (node.op != &ops::input) continue;
    if (next == graph.inputs.size() || graph.inputs[next].value != node.results[0])
      bug("graph: {} is not input {} of the graph", describe(node), next);
    const Input& input = graph.inputs[next++];
    if (input.name != node.name || name_of(input.kind) != node.attributes.string("kind"))
      bug("graph: input {} \"{}\" differs from its node {}", name_of(input.kind), input.name,
          describe(node));
    // A program of several meshes loads an input of the step on each.
    const bool loaded = input.kind == InputKind::scalar || input.kind == InputKind::batch ||
                        input.kind == InputKind::shared;
    invariant(names.insert(input.name).second || loaded, "graph: two inputs are called \"{}\"",
              input.name);
    if (input.kind == InputKind::state && input.of.empty()) parameters.insert(input.name);
    invariant(!input.frozen || parameters.count(input.name),
              "graph: \"{}\" is frozen but is not a parameter", input.name);
  }
  for (const Input& input : graph.inputs)
    invariant(input.of.empty() || (input.kind == InputKind::state &&
                                   (input.of == input.name || parameters.count(input.of))),
              "graph: {} \"{}\" belongs to \"{}\", which is not a parameter", name_of(input.kind),
              input.name, input.of);
  invariant(next == graph.inputs.size(), "graph: {} inputs but {} input nodes", graph.inputs.size(),
            next);
}

void verify_outputs(const Graph& graph) {
  const int num_values = static_cast<int>(graph.values.size());
  std::set<int> updated;
  for (const Update& update : graph.updates) {
    const Input* input = find_input(graph, update.input);
    invariant(input && (input->kind == InputKind::state || input->kind == InputKind::accumulator),
              "graph: update of value {}, which is not a state", update.input);
    invariant(!input->frozen, "graph: \"{}\" is frozen but updated", input->name);
    invariant(update.value >= 0 && update.value < num_values &&
                  graph.type(update.value) == graph.type(update.input),
              "graph: update of \"{}\" by a value of another type", input->name);
    invariant(updated.insert(update.input).second, "graph: \"{}\" is updated twice", input->name);
  }
  for (const Metric& metric : graph.metrics)
    invariant(
        metric.value >= 0 && metric.value < num_values && graph.type(metric.value).shape.empty(),
        "graph: metric \"{}\" is not a scalar", metric.name);
  std::set<std::string> names;
  for (const Output& output : graph.outputs) {
    invariant(output.value >= 0 && output.value < num_values,
              "graph: output \"{}\" is value {} of {}", output.name, output.value, num_values);
    invariant(names.insert(output.name).second, "graph: two outputs are called \"{}\"",
              output.name);
  }
}

}  // namespace

void verify(const Graph& graph) {
  std::vector<bool> defined(graph.values.size(), false);
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    verify_operands(graph, graph.nodes[n], defined);
    verify_results(graph, n, defined);
  }
  for (std::size_t value = 0; value < defined.size(); ++value)
    invariant(defined[value], "graph: no node defines value {}", value);
  verify_inputs(graph);
  verify_outputs(graph);
  const std::string mistake = region_mistake(graph);
  invariant(mistake.empty(), "graph: {}", mistake);
}

}  // namespace alpa
