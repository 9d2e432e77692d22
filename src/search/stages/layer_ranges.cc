// src/search/stages/layer_ranges.cc — tells which ranges of layers are alike, and cuts them out
#include "src/search/stages/layer_ranges.h"

#include <algorithm>
#include <set>

#include "alpa/base/error.h"
#include "src/base/work.h"
#include "src/ir/input.h"
#include "src/ir/rewrite.h"
#include "src/ir/stages.h"
#include "src/plan/facts/batch_factors.h"
#include "src/search/layers/layer_table.h"
#include "src/search/stages/stage_graph.h"

namespace alpa::inter_op {
namespace {

/// Per value, the other layers that read it.
std::vector<std::set<int>> readers_elsewhere(const Graph& staged) {
  std::vector<std::set<int>> readers(staged.values.size());
  const auto add = [&](int value, int layer) {
    if (staged.producer(value).layer != layer) readers[value].insert(layer);
  };
  for (const Node& node : staged.nodes)
    for (int value : node.operands) add(value, node.layer);
  for (const Update& update : staged.updates)
    add(update.value, staged.producer(update.input).layer);
  return readers;
}

bool is_number(const Graph& graph, int value) { return graph.type(value).rank() == 0; }

/// The node's part in its loop at the least it can cost inside a longer range. Single numbers, such
/// as the norm of all gradients, are free: how a chain of them through all layers falls into loops
/// would make equal layers different.
intra_op::LoopShare least_share(const Graph& graph, const Node& node,
                                const intra_op::LoopShare& inside) {
  if (node.op == &ops::input) return {};
  if (std::all_of(node.results.begin(), node.results.end(),
                  [&](int result) { return is_number(graph, result); }) &&
      std::all_of(node.operands.begin(), node.operands.end(),
                  [&](int operand) { return is_number(graph, operand); })) {
    intra_op::LoopShare free;
    free.vanishes = true;
    return free;
  }
  intra_op::LoopShare share = inside;
  share.vanishes |= node.operands.empty();
  return share;
}

/// Text that is equal for layers with equal graphs that are connected to equally distant layers in
/// the same way. Of single numbers it says only whether earlier or later layers have part in them.
class Signatures {
 public:
  Signatures(const Graph& staged, const LayerCuts& cuts,
             const std::vector<intra_op::LoopShare>& loops)
      : staged_(staged),
        cuts_(cuts),
        loops_(loops),
        readers_(readers_elsewhere(staged)),
        number_(staged.values.size()) {
    std::map<int, int> count;  // per layer, values that other layers read
    for (std::size_t v = 0; v < number_.size(); ++v)
      if (!readers_[v].empty()) number_[v] = count[staged.producer(static_cast<int>(v)).layer]++;
  }

  std::string of(int layer) const {
    const Subgraph part = cuts_.cut(layer, layer);
    intra_op::PartView view{part.graph, {}, {}};
    for (std::size_t n = 0; n < part.nodes.size(); ++n)
      view.shares.push_back(least_share(part.graph, part.graph.nodes[n], loops_[part.nodes[n]]));
    std::string text = intra_op::table_key(view, {});
    for (const Input& input : part.graph.inputs)
      if (input.kind == InputKind::boundary) {
        const int value = part.values[input.value];
        text += fmt::format(" {}.{}", distance(value, staged_.producer(value).layer, layer),
                            is_number(staged_, value) ? 0 : number_[value]);
      }
    for (const Output& output : part.graph.outputs) {
      text += " o";
      std::set<int> distances;
      for (int reader : readers_[part.values[output.value]])
        distances.insert(distance(part.values[output.value], reader, layer));
      for (int distance : distances) text += fmt::format("{},", distance);
    }
    return text;
  }

 private:
  int distance(int value, int other, int layer) const {
    return is_number(staged_, value) ? (other > layer) - (other < layer) : other - layer;
  }

  const Graph& staged_;
  const LayerCuts& cuts_;
  const std::vector<intra_op::LoopShare>& loops_;
  const std::vector<std::set<int>> readers_;
  std::vector<int> number_;  ///< per value that other layers read, counted within its layer
};

/// Per layer, what it holds whatever its plan is.
std::vector<HeldBytes> held_by_layers(const Graph& staged, int layers) {
  std::vector<HeldBytes> held(layers);
  for (const Input& input : staged.inputs)
    if (input.kind == InputKind::state || input.kind == InputKind::accumulator)
      held[staged.producer(input.value).layer].always +=
          static_cast<double>(staged.type(input.value).bytes());
  std::set<int> kept;  // of one layer for its own backward run
  for (const Node& node : staged.nodes)
    for (int value : node.operands) {
      const Node& producer = staged.producer(value);
      if (node.region == Region::backward && producer.region == Region::forward &&
          producer.op != &ops::input && producer.layer == node.layer)
        kept.insert(value);
    }
  for (int value : kept)
    held[staged.producer(value).layer].per_micro_batch +=
        static_cast<double>(staged.type(value).bytes());
  return held;
}

}  // namespace

LayerRanges::LayerRanges(const Graph& graph)
    : graph_(graph),
      layers_(num_layers(graph)),
      staged_(with_stage_per_layer(graph)),
      cuts_(staged_),
      loops_(intra_op::loop_shares(staged_)),
      held_by_(held_by_layers(staged_, layers_)),
      class_of_(static_cast<std::size_t>(layers_) * layers_, -1) {
  const Signatures signatures(staged_, cuts_, loops_);
  std::map<std::string, int> kinds;
  std::vector<int> kind_of;
  for (int layer = 0; layer < layers_; ++layer)
    kind_of.push_back(
        kinds.try_emplace(signatures.of(layer), static_cast<int>(kinds.size())).first->second);
  std::map<std::pair<int, int>, int> longer;  // class without the last layer, kind of that layer
  for (int length = 1; length <= layers_; ++length)
    for (int first = 0; first + length <= layers_; ++first) {
      const int last = first + length - 1;
      const int before = length == 1 ? -1 : class_of(first, last - 1);
      const auto [at, added] = longer.try_emplace({before, kind_of[last]}, classes());
      if (added) examples_.push_back({first, last});
      class_of_[first * layers_ + last] = at->second;
    }
}

bool LayerRanges::are_like(const LayerRanges& other) const {
  const auto forward = [](const Graph& staged) {  // but for inputs and the sum of losses
    std::vector<std::pair<const OpDef*, int>> nodes;
    for (const Node& node : staged.nodes)
      if (node.region == Region::forward && node.op != &ops::input &&
          !is_number(staged, node.results.front()))
        nodes.emplace_back(node.op, node.layer);
    return nodes;
  };
  return layers_ == other.layers_ && forward(staged_) == forward(other.staged_);
}

HeldBytes LayerRanges::held(Range range) const {
  HeldBytes sum;
  for (int layer = range.first; layer <= range.last; ++layer) {
    sum.always += held_by_[layer].always;
    sum.per_micro_batch += held_by_[layer].per_micro_batch;
  }
  return sum;
}

RangeGraph LayerRanges::graph_of(Range range) const {
  if (range.first == 0 && range.last == layers_ - 1) return {graph_, {}};
  const int own = range.first > 0 ? 1 : 0;
  std::vector<int> stages(layers_);
  for (int l = 0; l < layers_; ++l)
    stages[l] = l < range.first ? 0 : l <= range.last ? own : own + 1;
  const Graph staged = stage_graph(graph_, stages);
  spend_nodes(graph_.nodes.size());
  Subgraph part = subgraph(staged, own, own);
  const std::vector<int> batch_dims = intra_op::batch_dims(staged);
  RangeGraph result;
  for (const Input& input : part.graph.inputs)
    if (const int dim = batch_dims[part.values[input.value]];
        input.kind == InputKind::boundary && dim >= 0)
      result.batch_dims[input.name] = dim;
  result.graph = std::move(part.graph);
  return result;
}

RelaxedRange LayerRanges::relaxed(Range range) const {
  const Subgraph part = cuts_.cut(range.first, range.last);
  Graph graph = part.graph;
  graph.inputs.clear();
  RelaxedRange result;
  std::vector<Node> nodes;
  const auto add = [&](Node node, int value) {
    if (const Input* input = find_input(part.graph, value)) {
      graph.inputs.push_back(*input);
      graph.inputs.back().value = node.results[0];
      graph.inputs.back().name = node.name;
    }
    nodes.push_back(std::move(node));
  };
  std::vector<bool> read(part.graph.values.size(), false);
  for (std::size_t n = 0; n < part.graph.nodes.size(); ++n) {
    Node node = part.graph.nodes[n];
    for (int& value : node.operands) {
      const Input* input = find_input(part.graph, value);
      if (!input || input->kind != InputKind::boundary) continue;
      if (!read[value]) {
        read[value] = true;
        continue;
      }
      Node own = part.graph.producer(value);
      const int made = static_cast<int>(graph.values.size());
      own.name += fmt::format(" {}", made);
      own.results = {made};
      graph.values.push_back(graph.values[value]);
      add(std::move(own), std::exchange(value, made));
      result.loops.emplace_back();
    }
    result.loops.push_back(least_share(part.graph, node, loops_[part.nodes[n]]));
    const int first_result = node.results[0];
    add(std::move(node), first_result);
  }
  const std::size_t count = nodes.size();
  result.graph = with_nodes(graph, std::move(nodes)).graph;
  invariant(result.graph.nodes.size() == count, "relaxed range: {} of {} nodes are left",
            result.graph.nodes.size(), count);
  verify(result.graph);
  return result;
}

}  // namespace alpa::inter_op
