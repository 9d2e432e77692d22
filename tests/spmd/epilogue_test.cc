// What joins an einsum, what stays apart, and that joining changes no bit of what the CPU computes.
#include <doctest/doctest.h>

#include <cstring>

#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "src/runtime/executor.h"
#include "support/cuda_epilogues.h"
#include "support/steps.h"

namespace epilogue_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// "einsum_epilogue[bias relu] reduce_sum": operators but inputs, in order.
std::string operators(const spmd::SpmdProgram& program) {
  std::string text;
  for (const Node& node : program.graph.nodes) {
    if (node.op == &ops::input) continue;
    text += (text.empty() ? "" : " ") + std::string(node.op->name);
    if (node.op == &ops::einsum_epilogue) text += "[" + node.attributes.string("epilogue") + "]";
  }
  return text;
}

constexpr std::int64_t kRows = 8, kWide = 256;

struct Graphs {
  Recorder g{1};
  DType dtype = f32;
  int weights = 0;

  explicit Graphs(DType type = f32) : dtype(type) {}

  Value rows(std::int64_t width) { return g.input(InputKind::batch, "x", {dtype, {kRows, width}}); }
  Value parameter(const Shape& shape) {
    return g.parameter("w" + std::to_string(weights++), {dtype, shape},
                       Initializer::normal(0, 0.1));
  }
  /// The graph that keeps `made` in a state "out".
  Graph keeping(Value made) {
    g.update(g.input(InputKind::state, "out", made.type()), made);
    return g.finish();
  }
};

spmd::SpmdProgram partitioned(const Graph& graph, const Layouts& layouts = {},
                              const std::vector<int>& mesh = {2}) {
  return spmd::partition(graph, layouts.empty() ? replicated_plan(graph, mesh_of(mesh))
                                                : following_plan(graph, mesh_of(mesh), layouts));
}

std::string joined(const Graph& graph, const Layouts& layouts = {}) {
  const spmd::SpmdProgram program = with_cuda_epilogues(partitioned(graph, layouts));
  verify(program);
  return operators(program);
}

/// A training step of `layers` dense layers of width 256 with this activation between them.
Graph mlp(const OpDef& activation, DType dtype = f32, int micro_batches = 1, int layers = 2) {
  const TensorType batch{dtype, {kRows, kWide}};
  return training_graph(
      batch, batch,
      [&](Recorder& g, Value x, Value y) {
        for (int layer = 0; layer < layers; ++layer) {
          g.set_layer(layer);
          const std::string name = "dense" + std::to_string(layer);
          const Value w = g.parameter(name + "/w", {dtype, {kWide, kWide}},
                                      Initializer::normal(0, 0.1)),
                      b = g.parameter(name + "/b", {dtype, {kWide}}, Initializer::normal(0, 0.1));
          x = matmul(x, w) + b;
          if (layer + 1 < layers) x = &activation == &ops::relu ? relu(x) : gelu(x);
        }
        return mean(cast(square(x - y), f32), {0, 1});
      },
      {.num_micro_batches = micro_batches, .optimizer = StepOptimizer::sgd, .dtype = dtype});
}

bool same_bits(const StepOutcome& a, const StepOutcome& b) {
  return a.losses == b.losses && a.state == b.state;
}

StepOutcome run(const spmd::SpmdProgram& partitioned) {
  runtime::Executor executor(
      spmd::bucket_collectives(spmd::fuse_elementwise(partitioned), 1 << 20));
  return run_steps(executor, 2);
}

}  // namespace

TEST_CASE("bias and activation join the product, the last layer's bias alone") {
  CHECK(joined(mlp(ops::relu))
            .starts_with(
                "einsum_epilogue[bias relu keep] einsum_epilogue[bias] sub square reduce_sum "));
}

TEST_CASE(
    "the gradient of a dense layer is two products: dx with relu's gradient, dw with the bias's") {
  const std::string text = joined(mlp(ops::relu, f32, 1, 3));
  const auto count = [&](const std::string& word) {
    int n = 0;
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
      ++n;
    return n;
  };
  CAPTURE(text);
  CHECK(count("einsum_epilogue[relu gradient]") == 2);
  CHECK(count("einsum_epilogue[sums1]") == 3);
  CHECK(count(" einsum ") == 0);
  CHECK(count("step") == 0);
}

TEST_CASE("gelu keeps its operand for the gradient") {
  const std::string text = joined(mlp(ops::gelu));
  CHECK(text.find("einsum_epilogue[bias gelu keep]") != std::string::npos);
  CHECK(text.find("einsum_epilogue[gelu gradient]") != std::string::npos);
  CHECK(text.find("gelu_grad") == std::string::npos);
}

TEST_CASE(
    "joined or not, two training steps give the same bits, on every layout and in every type") {
  for (const OpDef* activation : {&ops::relu, &ops::gelu})
    for (DType dtype : {f32, bf16, f16})
      for (int micro_batches : {1, 2}) {
        const Graph graph = mlp(*activation, dtype, micro_batches);
        for (const Layouts& layouts :
             {Layouts{{"x", "R"}}, Layouts{{"x", "S0@0"}},
              Layouts{{"dense0/w", "S1@0"}, {"dense0/b", "S0@0"}}, Layouts{{"dense1/w", "S0@0"}}}) {
          CAPTURE(activation->name);
          CAPTURE(name_of(dtype));
          CAPTURE(layouts.begin()->second);
          const spmd::SpmdProgram apart = partitioned(graph, layouts);
          const spmd::SpmdProgram program = with_cuda_epilogues(apart);
          verify(program);
          CHECK(operators(program).find("einsum_epilogue") != std::string::npos);
          CHECK(same_bits(run(apart), run(program)));
        }
      }
}

TEST_CASE("what is added after an all_reduce stays apart, and so does what follows it") {
  Graphs graphs;
  const Value x = graphs.rows(kWide), w = graphs.parameter({kWide, kWide}),
              b = graphs.parameter({kWide});
  const Value product = matmul(x, w);
  const Graph graph = graphs.keeping(relu(product + b));
  CHECK(joined(graph) == "einsum_epilogue[bias relu]");
  const Layouts partial{{"x", "S1@0"}, {"w0", "S0@0"}, {"%" + std::to_string(product.id), "P+@0"}};
  CHECK(operators(with_cuda_epilogues(spmd::partition(
            graph, laid_out_plan(graph, mesh_of({2}), partial)))) == "einsum all_reduce add relu");
  CHECK(joined(graph, {{"w0", "S1@0"}, {"w1", "S0@0"}, {"out", "S1@0"}}) ==
        "einsum_epilogue[bias relu]");
}

TEST_CASE("a bias that must be gathered first is gathered before the product") {
  Graphs graphs;
  const Value x = graphs.rows(kWide), w = graphs.parameter({kWide, kWide}),
              b = graphs.parameter({kWide});
  const Graph graph = graphs.keeping(matmul(x, w) + b);
  const spmd::SpmdProgram apart =
      spmd::partition(graph, laid_out_plan(graph, mesh_of({2}), {{"w1", "S0@0"}}));
  CHECK(operators(apart) == "einsum all_gather add");
  CHECK(operators(with_cuda_epilogues(apart)) == "all_gather einsum_epilogue[bias]");
}

TEST_CASE("a bias that is defined or computed after the product moves before it") {
  Graphs graphs;
  const Value x = graphs.rows(kWide), product = matmul(x, graphs.parameter({kWide, kWide}));
  const Value b = reshape(exp(graphs.parameter({2, kWide / 2})), {kWide});
  CHECK(joined(graphs.keeping(relu(product + b))) == "exp reshape einsum_epilogue[bias relu]");
}

TEST_CASE("two products share a bias that is defined after the first") {
  Graphs graphs;
  const Value x = graphs.rows(kWide), first = matmul(x, graphs.parameter({kWide, kWide}));
  const Value b = graphs.parameter({kWide}), h = relu(first + b);
  const Graph graph = graphs.keeping(matmul(h, graphs.parameter({kWide, kWide})) + b);
  CHECK(joined(graph) == "einsum_epilogue[bias relu] einsum_epilogue[bias]");
}

TEST_CASE("two products share a bias that is defined after both") {
  Graphs graphs;
  const Value x = graphs.rows(kWide), first = matmul(x, graphs.parameter({kWide, kWide})),
              second = matmul(x, graphs.parameter({kWide, kWide}));
  const Value b = exp(graphs.parameter({kWide}));
  CHECK(joined(graphs.keeping(relu(second + b) * (first + b))) ==
        "exp einsum_epilogue[bias] einsum_epilogue[bias relu] mul");
}

TEST_CASE(
    "a bias computed from the product stays behind it, one computed by another product moves") {
  Graphs own;
  {
    const Value x = own.rows(kWide), product = matmul(x, own.parameter({kWide, kWide}));
    CHECK(joined(own.keeping(product + sum(product, {0}))) == "einsum reduce_sum add");
  }
  Graphs other;
  const Value x = other.rows(kWide), product = matmul(x, other.parameter({kWide, kWide}));
  const Value scale = other.parameter({kWide});
  const Value b = einsum("kn,k->n", other.parameter({kWide, kWide}), scale);
  CHECK(joined(other.keeping(product + b)) == "einsum einsum_epilogue[bias]");
}

TEST_CASE("a product that others read and other types stay as they are") {
  Graphs twice;
  {
    const Value x = twice.rows(kWide), z = matmul(x, twice.parameter({kWide, kWide}));
    CHECK(joined(twice.keeping((z + twice.parameter({kWide})) * z)) == "einsum add mul");
  }
  Graphs wide(f64);
  const Value x = wide.rows(kWide);
  const Value w = wide.parameter({kWide, kWide}), b = wide.parameter({kWide});
  CHECK(joined(wide.keeping(matmul(x, w) + b)) == "einsum add");
}

TEST_CASE("a product is made onto what is added to it, once that is there") {
  Graphs residual;
  {
    const Value x = residual.rows(kWide), w = residual.parameter({kWide, kWide});
    CHECK(joined(residual.keeping(x + matmul(x, w))) == "einsum_epilogue[add]");
  }
  Graphs biased;
  {
    const Value x = biased.rows(kWide), w = biased.parameter({kWide, kWide});
    CHECK(joined(biased.keeping(matmul(x, w) + biased.parameter({kWide}) + x)) ==
          "einsum_epilogue[bias add]");
  }
  Graphs three;
  {
    const Value x = three.rows(kWide), a = matmul(x, three.parameter({kWide, kWide})),
                b = matmul(x, three.parameter({kWide, kWide})),
                c = matmul(x, three.parameter({kWide, kWide}));
    CHECK(joined(three.keeping(a + b + c)) == "einsum einsum_epilogue[add] einsum_epilogue[add]");
  }
  Graphs later;
  const Value x = later.rows(kWide), product = matmul(x, later.parameter({kWide, kWide}));
  CHECK(joined(later.keeping(product + tanh(x))) == "einsum tanh add");
}

TEST_CASE("what an all_reduce or a gather brings is added behind the product") {
  Graphs graphs;
  const Value x = graphs.rows(kWide), w = graphs.parameter({kWide, kWide}),
              more = graphs.parameter({kRows, kWide});
  const Graph graph = graphs.keeping(matmul(x, w) + more);
  CHECK(joined(graph) == "einsum_epilogue[add]");
  CHECK(operators(with_cuda_epilogues(
            spmd::partition(graph, laid_out_plan(graph, mesh_of({2}), {{"w1", "S0@0"}})))) ==
        "einsum all_gather add");
}

/// matmul(x, w) + accumulator on two devices that split the contraction, so the product is partial.
spmd::SpmdProgram accumulated(const std::string& accumulator) {
  Recorder g(2);
  const Value x = g.input(InputKind::batch, "x", {f32, {kRows, kWide}}),
              w = g.parameter("w", {f32, {kWide, kWide}}, Initializer::normal(0, 0.1));
  const Value sum = g.input(InputKind::accumulator, "sum", {f32, {kRows, kWide}});
  const Value product = matmul(x, w);
  const Value after = sum + product;
  g.update(sum, after);
  const Graph graph = g.finish();
  return spmd::partition(graph, laid_out_plan(graph, mesh_of({2}),
                                              {{"x", "S1@0"},
                                               {"w", "S0@0"},
                                               {"%" + std::to_string(product.id), "P+@0"},
                                               {"sum", accumulator},
                                               {"%" + std::to_string(after.id), accumulator}}));
}

TEST_CASE("partial sums are made onto partial sums alone") {
  spmd::SpmdProgram joined = with_cuda_epilogues(accumulated("P+@0"));
  CHECK(operators(joined) == "einsum_epilogue[add]");
  verify(joined);
  CHECK(operators(with_cuda_epilogues(accumulated("R"))) == "einsum all_reduce add");
  for (const Input& input : joined.graph.inputs)
    if (input.kind == InputKind::accumulator) joined.specs[input.value] = {};
  CHECK_THROWS(verify(joined));
}

TEST_CASE("gradients are made onto their accumulators, small sums in one node") {
  const spmd::SpmdProgram program = spmd::fuse_optimizer_updates(
      spmd::fuse_small_sums(with_cuda_epilogues(partitioned(mlp(ops::gelu, bf16, 2, 3)))));
  verify(program);
  const std::string text = operators(program);
  CAPTURE(text);
  CHECK(text.find("add einsum_epilogue[sums1 add]") == std::string::npos);
  int products = 0, sums = 0;
  for (const Node& node : program.graph.nodes) {
    if (node.op == &ops::multi_tensor_add) sums += 1, CHECK(node.results.size() == 4);
    products +=
        node.op == &ops::einsum_epilogue && node.attributes.string("epilogue") == "sums1 add" ? 1
                                                                                              : 0;
  }
  CHECK(products == 3);
  CHECK(sums == 1);  // of three biases and the loss
}

TEST_CASE("rows that cuBLASLt cannot keep bits or operands of keep the function apart") {
  for (const auto& [width, expected] :
       {std::pair<std::int64_t, const char*>{256, "einsum_epilogue[bias relu keep]"},
        {192, "einsum_epilogue[bias relu] "},
        {5, "einsum_epilogue[bias relu] "}}) {
    const Graph graph = training_graph(
        {f32, {kRows, kWide}}, {f32, {kRows, 7}},
        [w = width](Recorder& g, Value x, Value y) {
          const auto parameter = [&](const char* name, const Shape& shape) {
            return g.parameter(name, {f32, shape}, Initializer::normal(0, 0.1));
          };
          const Value h = relu(matmul(x, parameter("a", {kWide, w})) + parameter("b", {w}));
          return mean(square(matmul(h, parameter("c", {w, 7})) - y), {0, 1});
        },
        {});
    CHECK(joined(graph).find(expected) != std::string::npos);
  }
}

TEST_CASE("the bias of heads joins where its letters are the product's columns") {
  for (const auto& [bias, expected] :
       {std::pair<Shape, const char*>{{2, 8}, "einsum_epilogue[bias]"}, {{8}, "einsum add"}}) {
    Graphs heads;
    const Value x = heads.g.input(InputKind::batch, "x", {f32, {4, 6, 32}});
    const Value w = heads.parameter({32, 2, 8}), b = heads.parameter(bias);
    CHECK(joined(heads.keeping(einsum("btc,chd->bthd", x, w) + b)) == expected);
  }
}

TEST_CASE("a joint node whose product would be a partial sum is refused") {
  Graphs graphs;
  const Value x = graphs.rows(kWide), w = graphs.parameter({kWide, kWide}),
              b = graphs.parameter({kWide});
  spmd::SpmdProgram program = with_cuda_epilogues(partitioned(graphs.keeping(matmul(x, w) + b)));
  verify(program);
  program.specs[x.id] = program.specs[x.id].split(0, 1);
  program.specs[w.id] = program.specs[w.id].split(0, 0);
  CHECK_THROWS(verify(program));
}

}  // namespace epilogue_test
