// Follows the batch through the index rules
#include "src/plan/facts/batch_factors.h"

#include "src/ops/all_ops.h"

namespace alpa::intra_op {
namespace {

class Trace {
 public:
  /// `behind`: dimensions from that of the batch to the one that is followed.
  Trace(const Graph& graph, const NodeClasses& classes,
        const std::map<std::string, int>& boundary_dims, int behind = 0)
      : graph_(graph),
        classes_(classes),
        dims_(graph.values.size(), -1),
        factors_(graph.nodes.size(), -1) {
    for (const Input& input : graph.inputs) {
      int dim = input.kind == InputKind::batch ? 0 : -1;
      if (const auto known = boundary_dims.find(input.name);
          input.kind == InputKind::boundary && known != boundary_dims.end())
        dim = known->second;
      if (dim >= 0 && dim + behind < graph.type(input.value).rank())
        dims_[input.value] = dim + behind;
    }
  }

  const std::vector<int>& dims() const { return dims_; }

  const std::vector<int>& run() {
    const int n = static_cast<int>(graph_.nodes.size());
    do {
      changed_ = false;
      for (int i = 0; i < n; ++i) visit(i);
      for (int i = n - 1; i >= 0; --i) visit(i);
    } while (changed_);
    return factors_;
  }

 private:
  void visit(int n) {
    const Node& node = graph_.nodes[n];
    const Rule& rule = classes_.of(n).rule;
    if (factors_[n] < 0) factors_[n] = factor_of_values(node.results, rule.results);
    if (factors_[n] < 0) factors_[n] = factor_of_values(node.operands, rule.operands);
    if (factors_[n] < 0) return;
    mark_values(node.results, rule.results, factors_[n]);
    mark_values(node.operands, rule.operands, factors_[n]);
  }

  /// The major factor of the first marked dimension.
  int factor_of_values(const std::vector<int>& values,
                       const std::vector<DimFactors>& tensors) const {
    for (std::size_t t = 0; t < values.size(); ++t) {
      const int dim = dims_[values[t]];
      if (dim >= 0 && !tensors[t][dim].empty()) return tensors[t][dim].front();
    }
    return -1;
  }

  void mark_values(const std::vector<int>& values, const std::vector<DimFactors>& tensors,
                   int factor) {
    for (std::size_t t = 0; t < values.size(); ++t) {
      if (dims_[values[t]] >= 0 || graph_.producer(values[t]).op == &ops::input) continue;
      for (std::size_t d = 0; d < tensors[t].size(); ++d) {
        if (tensors[t][d].empty() || tensors[t][d].front() != factor) continue;
        dims_[values[t]] = static_cast<int>(d);
        changed_ = true;
      }
    }
  }

  const Graph& graph_;
  const NodeClasses& classes_;
  std::vector<int> dims_;  ///< dimension of each value whose major part is the batch, -1 if none
  std::vector<int> factors_;
  bool changed_ = false;
};

}  // namespace

std::vector<int> batch_factors(const Graph& graph, const NodeClasses& classes,
                               const std::map<std::string, int>& boundary_dims) {
  return Trace(graph, classes, boundary_dims).run();
}

std::vector<int> token_factors(const Graph& graph, const NodeClasses& classes,
                               const std::map<std::string, int>& boundary_dims) {
  return Trace(graph, classes, boundary_dims, 1).run();
}

std::vector<int> batch_dims(const Graph& graph, const std::map<std::string, int>& boundary_dims) {
  const NodeClasses classes = classify(graph);
  Trace trace(graph, classes, boundary_dims);
  trace.run();
  return trace.dims();
}

}  // namespace alpa::intra_op
