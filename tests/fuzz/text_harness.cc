// Graphs and what stands in them, as text.
#include <alpa/ir/graph.h>
#include <alpa/mesh/sharding_spec.h>
#include <alpa/ops/ops.h>
#include "src/ops/all_ops.h"
#include "src/plan/facts/strategy.h"

#include "fuzz/harness.h"
#include "fuzz/small_graph.h"
#include "src/ir/recorder.h"
#include "support/evaluate.h"

namespace alpa::fuzz {
namespace {

/// Parses; what is accepted must print to a text that prints the same again.
template <class Parse, class Print>
int check(const std::uint8_t* data, std::size_t size, Parse&& parse, Print&& print) {
  const std::string text = input_text(data, size);
  std::string printed;
  if (accepts([&] { printed = print(parse(text)); })) expect_same(printed, print(parse(printed)));
  return 0;
}

/// One step of a graph that parsed, if it is small, on the reference interpreter: what a rule
/// accepts, kernels compute.
void run_if_small(const Graph& graph) {
  constexpr std::int64_t kSmall = 50'000;
  double points = 0;
  for (const Node& node : graph.nodes) points += flops(rule_of(graph, node));
  for (const ValueInfo& value : graph.values) points += static_cast<double>(value.type.elements());
  if (graph.num_micro_batches > 4 || points > kSmall) return;
  testing::Tensors inputs;
  for (const Input& input : graph.inputs) {
    TensorType type = graph.type(input.value);
    if (input.kind == InputKind::batch && type.shape.empty()) return;
    if (input.kind == InputKind::batch) type.shape[0] *= graph.num_micro_batches;
    inputs.emplace(input.name, testing::HostTensor(type));
  }
  evaluate(graph, inputs);
}

/// A graph of many operators, several with attributes.
Graph wide_graph() {
  Recorder g(2);
  const Value x = g.input(InputKind::batch, "x", {f32, {4, 6}}),
              labels = g.input(InputKind::batch, "labels", {i32, {4}});
  const Value w = g.parameter("w", {f32, {6, 8}}, Initializer::normal(0, 0.02));
  const Value total = g.input(InputKind::accumulator, "total", {f32, {}});
  const Value h =
      relu(reshape(einsum("ab,bc->ac", x, w), {2, 2, -1}) + random_uniform(g, {f32, {8}}));
  const Value z = transpose(reshape(h, {4, 2, 4}), {0, 2, 1}), m = max(z, {-1});
  const Value loss = mean(softmax_cross_entropy(m, labels));
  g.update(total, total + loss + sum(where(gt(m, 0.5), m, tanh(m))));
  g.set_region(Region::apply);
  g.update(w, w * 0.9);
  return g.finish();
}

}  // namespace

int fuzz_graph(const std::uint8_t* data, std::size_t size) {
  return check(
      data, size,
      [](const std::string& text) {
        Graph graph = parse_graph(text, all_ops());
        run_if_small(graph);
        return graph;
      },
      [](const Graph& graph) { return to_string(graph); });
}

std::vector<std::string> graph_seeds() {
  return {to_string(small_graph()), to_string(adam_graph()), to_string(wide_graph())};
}

int fuzz_attributes(const std::uint8_t* data, std::size_t size) {
  return check(
      data, size, [](const std::string& text) { return parse_attributes(text); },
      [](const Attributes& attributes) { return to_string(attributes); });
}

std::vector<std::string> attributes_seeds() {
  return {R"({equation="ik,kj->ij", axis=1, scale=0.5, to=bf16, dims=[0, 1], values=[0.5, 1.0]})",
          R"({none=[.], empty=[], text="a\"b\\c\n", low=-inf, bad=nan, big=9223372036854775807})",
          ""};
}

int fuzz_strategy(const std::uint8_t* data, std::size_t size) {
  return check(
      data, size, [](const std::string& text) { return parse_strategy(text); },
      [](const Strategy& strategy) { return to_string(strategy); });
}

std::vector<std::string> strategy_seeds() {
  return {"-", "f0@1 l2@0", "f255@3", "l0@0 f1@1 f2@2 f1@3"};
}

int fuzz_spec(const std::uint8_t* data, std::size_t size) {
  return check(
      data, size, [](const std::string& text) { return parse_spec(text); },
      [](const ShardingSpec& spec) { return to_string(spec); });
}

std::vector<std::string> spec_seeds() {
  return {"R", "S0@1", "S0@1 S0@0 S3@2", "P+@0 S1@1", "Pmax@0 Pmax@3", "Plse@1"};
}

}  // namespace alpa::fuzz
