// src/spmd/overlap_updates.cc — moves optimizer updates beside the backward pass
#include <algorithm>
#include <numeric>
#include <optional>

#include "rewrite.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

class Moving {
 public:
  explicit Moving(const SpmdProgram& program)
      : graph_(program.graph), nodes_(graph_.nodes), readers_(consumers(graph_)) {
    for (const Metric& metric : graph_.metrics) reported_.push_back(metric.value);
    for (const Output& output : graph_.outputs) reported_.push_back(output.value);
  }

  std::vector<Node> run() && {
    const int size = static_cast<int>(nodes_.size());
    std::vector<int> after(size), order(size);
    std::iota(after.begin(), after.end(), 0);
    std::iota(order.begin(), order.end(), 0);
    for (int n = 0; n < size; ++n) {
      const std::optional<int> ready = ready_after(n);
      if (!ready) continue;
      after[n] = *ready;
      nodes_[n].attributes.set(std::string(kOverlapped), std::int64_t{1});
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return after[a] < after[b]; });
    return in_order(order);
  }

 private:
  /// The last node that must precede update n: producers of its operands and other readers of its
  /// states. nullopt if n is not an update, if its results are read, or if its gradient comes from
  /// other devices, which would have to be waited for.
  std::optional<int> ready_after(int n) const {
    const Node& node = nodes_[n];
    if (!node.op->members || !node.op->members->gradients || node.region != Region::apply ||
        are_read(node.results))
      return std::nullopt;
    const std::size_t states = node.results.size();
    if (is_collective(graph_.producer(node.operands[states]))) return std::nullopt;
    int last = -1;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const int value = node.operands[i], producer = graph_.values[value].producer;
      if (nodes_[producer].op != &ops::input) last = std::max(last, producer);
      if (i >= states) continue;
      for (int reader : readers_[value])
        if (reader != n) last = std::max(last, reader);
    }
    return last < n ? std::optional(last) : std::nullopt;
  }

  bool are_read(const std::vector<int>& values) const {
    return std::any_of(values.begin(), values.end(), [&](int value) {
      return !readers_[value].empty() ||
             std::find(reported_.begin(), reported_.end(), value) != reported_.end();
    });
  }

  /// The nodes in this order, except that inputs keep their own order and precede their readers.
  std::vector<Node> in_order(const std::vector<int>& order) const {
    std::vector<Node> result;
    std::size_t inputs = 0;
    const auto add_inputs_to = [&](int n) {
      for (; inputs < graph_.inputs.size(); ++inputs) {
        const int producer = graph_.values[graph_.inputs[inputs].value].producer;
        if (producer > n) return;
        result.push_back(nodes_[producer]);
      }
    };
    for (int n : order) {
      if (nodes_[n].op == &ops::input) {
        add_inputs_to(n);
        continue;
      }
      for (int value : nodes_[n].operands)
        if (const int p = graph_.values[value].producer; nodes_[p].op == &ops::input)
          add_inputs_to(p);
      result.push_back(nodes_[n]);
    }
    return result;
  }

  const Graph& graph_;
  std::vector<Node> nodes_;
  std::vector<std::vector<int>> readers_;
  std::vector<int> reported_;
};

}  // namespace

SpmdProgram overlap_updates(const SpmdProgram& program) {
  if (program.graph.num_micro_batches > 1) return program;
  return with_nodes(program, Moving(program).run());
}

}  // namespace alpa
