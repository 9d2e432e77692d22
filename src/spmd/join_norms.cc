// src/spmd/join_norms.cc — the squared norms of many tensors from one node
#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "alpa/ops/all_ops.h"
#include "alpa/tensor/elementwise_program.h"
#include "join_nodes.h"
#include "kernels/elementwise.h"
#include "rewrite.h"

namespace alpa {
namespace {

bool is_op(const ElementwiseStep& step, ElementwiseOp op) { return step.op == static_cast<int>(op); }

/// True if a fused node is the square of its operand, and of nothing that was rounded to fewer bits.
bool is_fused_square(const Node& node) {
  if (node.op != &ops::fused || node.operands.size() != 1 || node.results.size() != 1) return false;
  const ElementwiseProgram program = parse_elementwise_program(node.attributes, 1);
  const std::vector<ElementwiseStep>& steps = program.steps;
  const bool converts =
      steps.size() == 2 && steps[0].a == 0 &&
      (is_op(steps[0], ElementwiseOp::cast_f32) || is_op(steps[0], ElementwiseOp::cast_f64));
  return (steps.size() == 1 || converts) && is_op(steps.back(), ElementwiseOp::square) &&
         program.outputs == std::vector<int>{program.num_registers() - 1};
}

/// The node that sums the squares which `sum` sums, straight from what is squared; nothing if `sum` is no
/// such node, or somebody else reads the squares.
std::optional<Node> norm_of(const Graph& graph, const std::vector<std::vector<int>>& readers,
                            const Node& sum) {
  if (sum.op != &ops::reduce_sum || !graph.type(sum.results[0]).shape.empty()) return std::nullopt;
  const Node& square = graph.producer(sum.operands[0]);
  if (square.op != &ops::square && !is_fused_square(square)) return std::nullopt;
  const TensorType &x = graph.type(square.operands[0]), &squares = graph.type(square.results[0]);
  const bool fits = readers[square.results[0]].size() == 1 && square.region == sum.region &&
                    x.shape == squares.shape && is_floating(squares.dtype) && size_of(squares.dtype) >= 4;
  if (!fits) return std::nullopt;
  Node norm = sum;
  norm.op = &ops::squared_norms;
  norm.operands = {square.operands[0]};
  norm.attributes = {{"dtype", squares.dtype}};
  return norm;
}

bool is_final(const Graph& graph, int value) {
  const auto names = [value](const auto& item) { return item.value == value; };
  return std::any_of(graph.updates.begin(), graph.updates.end(), names) ||
         std::any_of(graph.metrics.begin(), graph.metrics.end(), names);
}

SpmdProgram with_norms(const SpmdProgram& program) {
  const Graph& graph = program.graph;
  const std::vector<std::vector<int>> readers = consumers(graph);
  std::vector<Node> nodes = graph.nodes;
  for (Node& node : nodes) {
    std::optional<Node> norm = norm_of(graph, readers, node);
    if (!norm || is_final(graph, node.operands[0])) continue;
    nodes[graph.values[node.operands[0]].producer].op = nullptr;
    node = std::move(*norm);
  }
  nodes.erase(
      std::remove_if(nodes.begin(), nodes.end(), [](const Node& node) { return node.op == nullptr; }),
      nodes.end());
  return with_nodes(program, std::move(nodes));
}

Node joined(const std::vector<const Node*>& members) {
  Node result = *members.front();
  result.operands.clear(), result.results.clear();
  for (const Node* member : members) {
    result.operands.push_back(member->operands[0]);
    result.results.push_back(member->results[0]);
  }
  result.name += fmt::format("+{}", members.size() - 1);
  return result;
}

}  // namespace

SpmdProgram join_norms(const SpmdProgram& program) {
  const auto kind = [](const Node& node) -> std::optional<std::string> {
    if (node.op != &ops::squared_norms) return std::nullopt;
    return fmt::format("{} {}", to_string(node.attributes), static_cast<int>(node.region));
  };
  const auto size = [](const Node&) { return std::int64_t{1}; };
  return join_nodes(with_norms(program), {kind, size, std::numeric_limits<std::int64_t>::max(), joined});
}

}  // namespace alpa
