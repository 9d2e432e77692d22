// Layers of a training graph, and parts of it as graphs of their own.
#include "src/ir/subgraph.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "alpa/autograd/gradient.h"
#include "alpa/base/error.h"
#include "alpa/nn/layers.h"
#include "alpa/ops/ops.h"
#include "alpa/optim/adam.h"
#include "alpa/train/training_step.h"
#include "src/ir/layers.h"
#include "src/ir/recorder.h"
#include "src/ir/rewrite.h"
#include "src/ops/all_ops.h"

namespace subgraph_test {

using namespace alpa;

namespace {

struct Stack {
  int layers = 4;
  bool tied = false;  ///< the first layer and the last have one kernel
  bool dropout = false;
  bool clip = false;
  int num_micro_batches = 1;
};

Graph stack(const Stack& s) {
  const TensorType type{f32, {4, 6}};
  const auto model = [s](const Batch& batch) {
    Value h = batch["x"];
    Recorder& g = recorder(h);
    for (int layer = 0; layer < s.layers; ++layer) {
      const LayerScope scope(g, layer);
      const bool shared = s.tied && (layer == 0 || layer == s.layers - 1);
      const std::string name = shared ? "tied" : fmt::format("layer{}", layer);
      h = relu(matmul(h, g.parameter(name + ".w", {f32, {6, 6}}, Initializer::normal(0, 1))));
      if (s.dropout) h = nn::Dropout(0.5)(h);
    }
    return LossAndMetrics{mean(square(h - batch["y"]))};
  };
  StepOptions options;
  options.clip_global_norm = s.clip ? 1 : 0;
  return with_layers(training_step({{"x", type}, {"y", type}}, model, optim::Adam{}, options)
                         .trace(s.num_micro_batches));
}

std::map<std::string, int> layers_of_inputs(const Graph& graph) {
  std::map<std::string, int> layers;
  for (const Input& input : graph.inputs) layers[input.name] = graph.producer(input.value).layer;
  return layers;
}

std::vector<int> layers_of(const Graph& graph, const OpDef& op) {
  std::vector<int> layers;
  for (const Node& node : graph.nodes)
    if (node.op == &op) layers.push_back(node.layer);
  return layers;
}

}  // namespace

TEST_CASE("parameters, their optimizer state and updates belong to the layer that reads them") {
  for (int num_micro_batches : {1, 2}) {
    const Graph graph = stack({.layers = 3, .num_micro_batches = num_micro_batches});
    const auto inputs = layers_of_inputs(graph);
    for (int layer = 0; layer < 3; ++layer)
      for (const char* state : {".w", ".w.adam_m", ".w.adam_v"})
        CHECK(inputs.at(fmt::format("layer{}", layer) + state) == layer);
    if (num_micro_batches > 1) CHECK(inputs.at("layer1.w.gradient") == 1);
    CHECK(inputs.at("x") == 0);
    CHECK(inputs.at("y") == -1);
    CHECK(layers_of(graph, ops::multi_tensor_adam) == std::vector<int>{0, 1, 2});
  }
}

TEST_CASE("what several layers share belongs to none") {
  const Graph tied = stack({.layers = 3, .tied = true});
  CHECK(layers_of_inputs(tied).at("tied.w") == -1);
  CHECK(layers_of_inputs(tied).at("tied.w.adam_m") == -1);
  CHECK(layers_of(tied, ops::multi_tensor_adam) == std::vector<int>{-1, 1});
  const Graph clipped = stack({.layers = 2, .clip = true});
  CHECK(layers_of(clipped, ops::multi_tensor_adam) == std::vector<int>{0, 1});
  CHECK(layers_of(clipped, ops::sqrt) == std::vector<int>{-1});
}

TEST_CASE("the parts of a graph hold every node once and name their boundary") {
  for (const Stack& s :
       {Stack{}, Stack{.tied = true}, Stack{.clip = true, .num_micro_batches = 2}}) {
    const Graph graph = stack(s);
    std::vector<int> seen(graph.nodes.size(), 0);
    std::map<std::string, int> left, found;
    std::size_t updates = 0, metrics = 0;
    for (int layer = -1; layer < s.layers; ++layer) {
      const Subgraph part = subgraph(graph, layer, layer);
      updates += part.graph.updates.size();
      metrics += part.graph.metrics.size();
      for (std::size_t n = 0; n < part.nodes.size(); ++n) {
        const Node& node = part.graph.nodes[n];
        const Input* input = find_input(part.graph, node.results[0]);
        if (input && input->kind == InputKind::boundary) {
          CHECK(input->name == fmt::format("%{}", part.values[input->value]));
          CHECK(graph.type(part.values[input->value]) == part.graph.type(input->value));
          ++found[input->name];
        } else if (!input || input->kind != InputKind::scalar) {
          ++seen[part.nodes[n]];
          CHECK(graph.nodes[part.nodes[n]].op == node.op);
          CHECK(graph.nodes[part.nodes[n]].name == node.name);
        }
      }
      for (const Output& output : part.graph.outputs) {
        CHECK(output.name == fmt::format("%{}", part.values[output.value]));
        ++left[output.name];
      }
    }
    for (std::size_t n = 0; n < seen.size(); ++n) {
      const Input* input = find_input(graph, graph.nodes[n].results[0]);
      CHECK(seen[n] == (input && input->kind == InputKind::scalar ? 0 : 1));
    }
    CHECK(updates == graph.updates.size());
    CHECK(metrics == graph.metrics.size());
    CHECK(left.size() >= 2 * static_cast<std::size_t>(s.layers - 1));
    for (const auto& [name, times] : left) CHECK((times == 1 && found[name] >= 1));
    CHECK(found.size() == left.size());
  }
}

TEST_CASE("a range of layers joins what is between them") {
  const Graph graph = stack({.layers = 4});
  const Subgraph one = subgraph(graph, 1, 1), two = subgraph(graph, 1, 2);
  CHECK(one.graph.outputs.size() == two.graph.outputs.size());
  CHECK(two.graph.nodes.size() > one.graph.nodes.size() + 5);
  CHECK(subgraph(graph, 0, 3).graph.outputs.size() == 1);  // what the loss reads
  CHECK_THROWS_WITH_AS(
      subgraph(graph, 2, 1),
      "subgraph: layers 2 to 1; give a range of layers from 0, or -1 and -1 for what belongs to "
      "none",
      Error);
}

TEST_CASE("a part of a graph prints and parses") {
  const Graph part = subgraph(stack({.layers = 3, .num_micro_batches = 2}), 1, 1).graph;
  const std::string text = to_string(part);
  CHECK(text.find("kind=\"boundary\"") != std::string::npos);
  CHECK(text.find("output \"%") != std::string::npos);
  const Graph parsed = parse_graph(text, all_ops());
  CHECK(parsed == part);
  CHECK(structural_hash(parsed) == structural_hash(part));
}

TEST_CASE("equal layers of a stack have equal hashes, dropout included, and streams of their own") {
  for (bool dropout : {false, true}) {
    const Graph graph = stack({.layers = 6, .dropout = dropout});
    std::set<std::uint64_t> hashes, exact;
    for (int layer = 1; layer < 6; ++layer) {
      const Graph part = subgraph(graph, layer, layer).graph;
      hashes.insert(layer_hash(part));
      exact.insert(structural_hash(part));
    }
    CHECK(hashes.size() == 1);
    CHECK(exact.size() == 5);
    CHECK(layer_hash(subgraph(graph, 0, 0).graph) != *hashes.begin());
    CHECK(layer_hash(subgraph(graph, 1, 2).graph) == layer_hash(subgraph(graph, 3, 4).graph));
  }
  const Graph plain = stack({.layers = 3}), dropped = stack({.layers = 3, .dropout = true});
  CHECK(layer_hash(subgraph(plain, 1, 1).graph) != layer_hash(subgraph(dropped, 1, 1).graph));
}

TEST_CASE("every random node has a stream of its own, which other layers do not change") {
  const auto streams = [](const Graph& graph) {
    std::vector<std::int64_t> result;
    for (const Node& node : graph.nodes)
      if (node.region == Region::forward && node.attributes.contains(kStreamAttribute))
        result.push_back(node.attributes.integer(kStreamAttribute));
    return result;
  };
  const std::vector<std::int64_t> three = streams(stack({.layers = 3, .dropout = true}));
  std::vector<std::int64_t> five = streams(stack({.layers = 5, .dropout = true}));
  CHECK(std::set<std::int64_t>(five.begin(), five.end()).size() == 5);
  five.resize(3);
  CHECK(three == five);
  Recorder g;
  for (int draw = 0; draw < 2; ++draw) random_uniform(g, {f32, {2}});
  const LayerScope scope(g, 0);
  for (int draw = 0; draw < 2; ++draw) random_uniform(g, {f32, {2}});
  std::set<std::int64_t> different;
  for (int n = 0; n < g.num_nodes(); ++n)
    different.insert(g.node(n).attributes.integer(kStreamAttribute));
  CHECK(different.size() == 4);
}

TEST_CASE("a sum over micro-batches that another layer reads cannot be cut off") {
  Graph graph = stack({.layers = 2, .num_micro_batches = 2});
  for (Node& node : graph.nodes)
    if (node.op == &ops::multi_tensor_adam && node.layer == 1) node.layer = 0;
  std::string message;
  try {
    subgraph(graph, 0, 0);
  } catch (const Error& error) {
    message = error.what();
  }
  CHECK(message.starts_with("subgraph: multi_tensor_adam \""));
  CHECK(message.ends_with(" of layer 1 adds up; give both one layer"));
}

TEST_CASE("with_nodes leaves out what nothing needs and numbers values anew") {
  Recorder g;
  const Value x = g.input(InputKind::state, "x", {f32, {2}});
  const Value kept = square(x), dropped = exp(relu(x));
  g.update(x, kept);
  Graph graph = g.finish();
  CHECK(graph.nodes.size() == 2);
  CHECK(dropped.id == 3);
  Node unread = graph.nodes[1];
  unread.results = {2};
  graph.values.push_back({graph.type(1), 2, 0});
  const Rewritten same = with_nodes(graph, {graph.nodes[0], unread, Node{}, graph.nodes[1]});
  CHECK(same.graph.nodes.size() == 2);
  CHECK(same.values == std::vector<int>{0, 1});
  graph.outputs.push_back({"square", 2});
  const Rewritten more = with_nodes(graph, {graph.nodes[0], unread, graph.nodes[1]});
  CHECK(more.graph.nodes.size() == 3);
  CHECK(more.values == std::vector<int>{0, 2, 1});
  CHECK(more.graph.updates[0].value == 2);
  CHECK(more.graph.outputs[0].value == 1);
  verify(more.graph);
  CHECK_THROWS_WITH_AS(with_nodes(graph, {graph.nodes[1], unread}),
                       "rewriting a graph: value 0 is read but not defined", Bug);
}

}  // namespace subgraph_test
