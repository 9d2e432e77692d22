// src/spmd/fuse_squares.cc — replaces the sum of all squares of a tensor by one
// node that stores no squares
#include <algorithm>

#include "rewrite.h"
#include "src/ir/rewrite.h"
#include "src/ops/all_ops.h"

namespace alpa::spmd {
namespace {

struct Readers {
  std::vector<std::vector<int>> nodes;  ///< per value
  std::vector<bool> others;             ///< per value, whether an update, metric or output takes it
};

/// True if one node reads `value`, and no update, output or metric takes it.
bool is_read_once(const Readers& readers, int value) {
  return readers.nodes[value].size() == 1 && !readers.others[value];
}

/// The operand of the cast, if `value` is a cast to a wider type, which is exact; else `value`.
int before_widening(const Graph& graph, int value) {
  const Node& cast = graph.producer(value);
  if (cast.op != &ops::cast) return value;
  const DType from = graph.type(cast.operands[0]).dtype, to = graph.type(value).dtype;
  return is_floating(from) && is_floating(to) && size_of(from) < size_of(to) ? cast.operands[0]
                                                                             : value;
}

/// The node of the squares that `sum` reduces over all dimensions; -1 if there is
/// none, or if others read them.
int summed_square(const Graph& graph, const Readers& readers, const Node& sum) {
  if (sum.op != &ops::reduce_sum || !graph.type(sum.results[0]).shape.empty()) return -1;
  const int squares = sum.operands[0], square = graph.values[squares].producer;
  const bool fits = graph.nodes[square].op == &ops::square &&
                    is_floating(graph.type(squares).dtype) &&
                    graph.nodes[square].region == sum.region && is_read_once(readers, squares);
  return fits ? square : -1;
}

}  // namespace

SpmdProgram fuse_squares(const SpmdProgram& program) {
  const Graph& graph = program.graph;
  const Readers readers{consumers(graph), externally_used_values(graph)};
  std::vector<Node> nodes = graph.nodes;
  for (Node& node : nodes) {
    const int square = summed_square(graph, readers, node);
    if (square < 0) continue;
    const int squared = graph.nodes[square].operands[0], x = before_widening(graph, squared);
    if (x != squared && is_read_once(readers, squared))
      nodes[graph.values[squared].producer].op = nullptr;
    nodes[square].op = nullptr;
    node.op = &ops::squared_norms;
    node.operands = {x};
    node.attributes = {{"dtype", graph.type(node.results[0]).dtype}};
  }
  return with_nodes(program, std::move(nodes));
}

}  // namespace alpa::spmd
