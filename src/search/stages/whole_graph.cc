// src/search/stages/whole_graph.cc — joins the graphs of stages
#include "src/search/stages/whole_graph.h"

#include <algorithm>
#include <map>

#include "alpa/base/error.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"
#include "src/ir/rewrite.h"

namespace alpa {
namespace {

/// A stage while its nodes are appended.
struct Appending {
  const Graph& graph;
  std::vector<int> values;  ///< per value of `graph`: its value in the whole, or -1
  std::size_t next = 0;     ///< node of `graph` that comes next
};

class Joining {
 public:
  explicit Joining(std::span<const StagePlan> stages) {
    result_.num_micro_batches = stages.front().graph.num_micro_batches;
    for (const StagePlan& stage : stages) {
      const int s = static_cast<int>(stages_.size());
      require(stage.graph.num_micro_batches == result_.num_micro_batches,
              "stage {} has {} micro-batches, but stage 0 has {}", s, stage.graph.num_micro_batches,
              result_.num_micro_batches);
      stages_.push_back({stage.graph, std::vector<int>(stage.graph.values.size(), -1)});
      for (const Output& output : stage.graph.outputs) {
        const auto [giver, is_new] = givers_.emplace(output.name, Given{s, output.value});
        require(is_new, "stages {} and {} both give \"{}\"", giver->second.stage, s,
                excerpt(output.name));
      }
    }
  }

  Graph run() && {
    for (bool moved = true; moved;) {
      moved = false;
      for (int s = 0; s < static_cast<int>(stages_.size()); ++s)
        while (append_next(s)) moved = true;
    }
    for (int s = 0; s < static_cast<int>(stages_.size()); ++s) {
      if (stages_[s].next < stages_[s].graph.nodes.size()) fail_waiting(s);
      append_takers(s);
    }
    std::ranges::stable_sort(result_.inputs, {}, &Input::value);
    std::vector<Node> nodes = result_.nodes;
    std::ranges::stable_sort(nodes, {}, [](const Node& node) {
      return node.op == &ops::input ? Region::forward : node.region;
    });
    return with_nodes(result_, std::move(nodes)).graph;
  }

 private:
  struct Given {
    int stage = 0, value = -1;
  };

  [[noreturn]] void fail_waiting(int s) const {
    const Node& node = stages_[s].graph.nodes[stages_[s].next];
    fail("stages wait for each other: stage {} has no operand of {} \"{}\"", s, node.op->name,
         excerpt(node.name));
  }

  /// False if the stage is at its end, or waits for a value of another one.
  bool append_next(int s) {
    Appending& stage = stages_[s];
    if (stage.next == stage.graph.nodes.size()) return false;
    const Node& node = stage.graph.nodes[stage.next];
    for (const int value : node.operands)
      if (!is_here(value, s)) return false;
    ++stage.next;
    const Input* input =
        node.op == &ops::input ? find_input(stage.graph, node.results[0]) : nullptr;
    if (!input || input->kind != InputKind::boundary) append(node, input, stage);
    return true;
  }

  /// True if the value is in the whole: made by this stage, or given by another one that has it.
  bool is_here(int value, int s) {
    int& known = stages_[s].values[value];
    if (known >= 0) return true;
    const std::string& name = stages_[s].graph.producer(value).name;
    const auto giver = givers_.find(name);
    require(giver != givers_.end(), "stage {} reads \"{}\", which no stage gives", s,
            excerpt(name));
    const Appending& other = stages_[giver->second.stage];
    const TensorType &read = stages_[s].graph.type(value),
                     &given = other.graph.type(giver->second.value);
    require(read == given, "stage {} reads \"{}\" as {}, but stage {} gives {}", s, excerpt(name),
            to_string(read), giver->second.stage, to_string(given));
    known = other.values[giver->second.value];
    return known >= 0;
  }

  /// Inputs of the step that several stages read are one input.
  void append(Node node, const Input* input, Appending& stage) {
    if (const Input* same = input ? find_input(result_, input->kind, input->name) : nullptr) {
      stage.values[input->value] = same->value;
      return;
    }
    for (int& operand : node.operands) operand = stage.values[operand];
    for (int& value : node.results) {
      ValueInfo info = stage.graph.values[value];
      info.producer = static_cast<int>(result_.nodes.size());
      result_.values.push_back(std::move(info));
      value = stage.values[value] = static_cast<int>(result_.values.size()) - 1;
    }
    if (input) {
      result_.inputs.push_back(*input);
      result_.inputs.back().value = node.results[0];
    }
    result_.nodes.push_back(std::move(node));
  }

  /// Updates, metrics, and the outputs that the step returns: values between stages are called
  /// after their numbers.
  void append_takers(int s) {
    const Appending& stage = stages_[s];
    for (const Update& update : stage.graph.updates) {
      require(is_here(update.value, s), "stage {} has no new content of \"{}\"", s,
              excerpt(stage.graph.producer(update.input).name));
      result_.updates.push_back({stage.values[update.input], stage.values[update.value]});
    }
    for (const Metric& metric : stage.graph.metrics)
      result_.metrics.push_back({metric.name, stage.values[metric.value]});
    for (const Output& output : stage.graph.outputs)
      if (!output.name.starts_with('%'))
        result_.outputs.push_back({output.name, stage.values[output.value]});
  }

  Graph result_;
  std::vector<Appending> stages_;
  std::map<std::string, Given> givers_;  ///< of values between stages, by name
};

}  // namespace

Graph whole_graph(std::span<const StagePlan> stages) {
  if (stages.size() == 1) return stages.front().graph;
  return Joining(stages).run();
}

}  // namespace alpa
