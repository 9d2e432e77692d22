#pragma once
/// The reference interpreter of graphs: one device, node by node with the CPU
/// kernels, nothing fused, nothing planned. One call is one step: forward and
/// backward once per micro-batch, then apply.
#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/kernel_call.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"
#include "src/ir/recorder.h"

namespace alpa::testing {

using Tensors = std::map<std::string, HostTensor>;

struct StepResult {
  Tensors updates;                        ///< new contents of state inputs, by name
  std::map<std::string, double> metrics;  ///< by name

  /// All elements of the new content of state `name`.
  std::vector<double> update(const std::string& name) const {
    const HostTensor& tensor = updates.at(name);
    std::vector<double> values;
    for (std::int64_t i = 0; i < tensor.type.elements(); ++i) values.push_back(tensor.get(i));
    return values;
  }
};

/// Makes `value` readable after the step as `update(name)`.
inline void output(Recorder& builder, const std::string& name, Value value) {
  builder.update(builder.input(InputKind::state, name, value.type()), value);
}

/// A tensor with these elements.
inline HostTensor tensor(TensorType type, const std::vector<double>& values) {
  HostTensor result(std::move(type));
  if (static_cast<std::int64_t>(values.size()) != result.type.elements())
    throw std::logic_error("tensor: wrong number of elements");
  for (std::size_t i = 0; i < values.size(); ++i)
    result.put(static_cast<std::int64_t>(i), values[i]);
  return result;
}

class Interpreter {
 public:
  Interpreter(const Graph& graph, const Tensors& inputs, const StepContext& step)
      : graph_(graph), inputs_(inputs), step_(step), values_(graph.values.size()) {}

  StepResult run() {
    for (const Input& input : graph_.inputs)
      if (input.kind != InputKind::batch) values_[input.value] = whole_input(input);
    for (int m = 0; m < graph_.num_micro_batches; ++m) micro_batch(m);
    for (const Node& node : graph_.nodes)
      if (node.region == Region::apply) compute(node);
    StepResult result;
    for (const Update& update : graph_.updates)
      if (const Input* input = find_input(graph_, update.input); input->kind == InputKind::state)
        result.updates[input->name] = values_[update.value];
    for (const Metric& metric : graph_.metrics)
      result.metrics[metric.name] = values_[metric.value].get(0);
    return result;
  }

 private:
  /// Zeros where nothing is given: accumulators, and states that are only written.
  HostTensor whole_input(const Input& input) const {
    const auto given = inputs_.find(input.name);
    if (given == inputs_.end()) return HostTensor(graph_.type(input.value));
    if (given->second.type != graph_.type(input.value))
      throw std::logic_error("input " + input.name + " is given as " +
                             to_string(given->second.type));
    return given->second;
  }

  /// The m-th slice along dimension 0 of a batch input.
  HostTensor slice(const Input& input, int m) const {
    const HostTensor& whole = inputs_.at(input.name);
    HostTensor part(graph_.type(input.value));
    if (whole.bytes.size() != part.bytes.size() * graph_.num_micro_batches ||
        whole.type.dtype != part.type.dtype)
      throw std::logic_error("batch input " + input.name + " is given as " + to_string(whole.type));
    std::copy_n(whole.bytes.begin() + static_cast<std::ptrdiff_t>(m * part.bytes.size()),
                part.bytes.size(), part.bytes.begin());
    return part;
  }

  void micro_batch(int m) {
    step_.micro_batch = m;
    for (const Input& input : graph_.inputs)
      if (input.kind == InputKind::batch) values_[input.value] = slice(input, m);
    for (const Node& node : graph_.nodes)
      if (node.region != Region::apply && node.op != &ops::input) compute(node);
    for (const Update& update : graph_.updates)
      if (find_input(graph_, update.input)->kind == InputKind::accumulator)
        values_[update.input] = values_[update.value];
  }

  void compute(const Node& node) {
    if (!node.op->cpu) throw std::logic_error("no CPU kernel for " + std::string(node.op->name));
    std::vector<HostTensor> operands, results;
    for (int value : node.operands) operands.push_back(values_[value]);
    for (int value : node.results) results.emplace_back(graph_.type(value));
    results = run_kernel(*node.op->cpu, operands, results,
                         {.attributes = node.attributes, .step = step_});
    for (std::size_t i = 0; i < results.size(); ++i)
      values_[node.results[i]] = std::move(results[i]);
  }

  const Graph& graph_;
  const Tensors& inputs_;
  StepContext step_;
  std::vector<HostTensor> values_;
};

/// One step of `graph`. Batch inputs are given whole (all micro-batches along dimension 0),
/// states and scalars by name.
inline StepResult evaluate(const Graph& graph, const Tensors& inputs,
                           const StepContext& step = {}) {
  return Interpreter(graph, inputs, step).run();
}

}  // namespace alpa::testing
