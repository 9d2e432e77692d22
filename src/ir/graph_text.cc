// src/ir/graph_text.cc — prints the text form of graphs; its grammar is in docs/graph-text.md
#include "alpa/base/text.h"
#include "alpa/ir/graph.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"

namespace alpa {
namespace {

std::string ref(int value) { return "%" + std::to_string(value); }

}  // namespace

std::string to_string(const Graph& graph, const Node& node) {
  std::string text;
  for (int value : node.results)
    text += (text.empty() ? "" : ", ") + ref(value) + ": " + to_string(graph.type(value));
  text += " = " + std::string(node.op->name) + "(";
  for (std::size_t i = 0; i < node.operands.size(); ++i)
    text += (i > 0 ? ", " : "") + ref(node.operands[i]);
  text += ")";
  if (const std::string attributes = to_string(node.attributes); !attributes.empty())
    text += " " + attributes;
  text += " " + std::string(name_of(node.region));
  if (node.layer != -1) text += " layer=" + std::to_string(node.layer);
  if (node.remat != -1) text += (node.again ? " again=" : " remat=") + std::to_string(node.remat);
  return text + " " + quoted(node.name);
}

std::string to_string(const Graph& graph) {
  std::string text = "graph micro_batches=" + std::to_string(graph.num_micro_batches) + "\n";
  for (const Node& node : graph.nodes) text += to_string(graph, node) + "\n";
  for (const Input& input : graph.inputs) {
    if (!input.of.empty()) text += "state " + ref(input.value) + " of " + quoted(input.of) + "\n";
    if (input.frozen) text += "frozen " + ref(input.value) + "\n";
  }
  for (const Update& update : graph.updates)
    text += "update " + ref(update.input) + " = " + ref(update.value) + "\n";
  for (const Metric& metric : graph.metrics)
    text += "metric " + quoted(metric.name) + " = " + ref(metric.value) + "\n";
  for (const Output& output : graph.outputs)
    text += "output " + quoted(output.name) + " = " + ref(output.value) + "\n";
  return text;
}

}  // namespace alpa
