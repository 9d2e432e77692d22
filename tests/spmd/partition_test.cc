// A two-layer MLP, first kernel split by columns and the second by rows (Shoeybi et al. 2019), from
// plan to partitioned program.
#include <doctest/doctest.h>

#include "alpa/base/error.h"
#include "src/ir/recorder.h"
#include "support/steps.h"

namespace partition_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

Graph two_layers(int num_micro_batches = 1) {
  const auto model = [](Recorder& g, Value x, Value y) {
    const Value w1 = g.parameter("w1", {f32, {8, 16}}, Initializer::normal(0, 1));
    const Value w2 = g.parameter("w2", {f32, {16, 4}}, Initializer::normal(0, 1));
    return mean(square(matmul(relu(matmul(x, w1)), w2) - y));
  };
  return training_graph({f32, {8, 8}}, {f32, {8, 4}}, model,
                        {.num_micro_batches = num_micro_batches});
}

const char* const kColumnThenRow = R"(mesh 2
graph micro_batches=1
%0: f32[] = input() {kind="scalar", dtype=f32, shape=[]} forward "learning_rate" -> R
%1: f32[] = input() {kind="scalar", dtype=f32, shape=[]} forward "step" -> R
%2: f32[8, 4] = input() {kind="batch", dtype=f32, shape=[8, 4]} forward "y" -> R
%3: f32[8, 8] = input() {kind="batch", dtype=f32, shape=[8, 8]} forward "x" -> R
%4: f32[8, 16] = input() {kind="state", dtype=f32, shape=[8, 16], init="normal", a=0.0, b=1.0} forward "w1" -> S1@0
%5: f32[16, 4] = input() {kind="state", dtype=f32, shape=[16, 4], init="normal", a=0.0, b=1.0} forward "w2" -> S0@0
%6: f32[8, 16] = einsum(%3, %4) {equation="mk,kn->mn"} forward "einsum" -> S1@0
%7: f32[8, 16] = relu(%6) forward "relu" -> S1@0
%8: f32[8, 4] = einsum(%7, %5) {equation="mk,kn->mn"} forward "einsum" -> P+@0
%9: f32[8, 4] = all_reduce(%8) {axes=[0]} forward "einsum.all_reduce" -> R
%10: f32[8, 4] = sub(%9, %2) forward "sub" -> R
%11: f32[8, 4] = square(%10) forward "square" -> R
%12: f32[] = reduce_sum(%11) {axes=[0, 1], keep_dims=0} forward "reduce_sum" -> R
%13: f32[] = constant() {value=0.03125, dtype=f32, shape=[]} forward "constant" -> R
%14: f32[] = mul(%12, %13) forward "mul" -> R
%15: f32[] = constant() {value=0.0625, dtype=f32, shape=[]} backward "square.grad/constant" -> R
%16: f32[8, 4] = mul(%10, %15) backward "square.grad/mul" -> R
%17: f32[8, 16] = einsum(%16, %5) {equation="mn,kn->mk"} backward "einsum.grad/einsum" -> S1@0
%18: f32[16, 4] = einsum(%7, %16) {equation="mk,mn->kn"} backward "einsum.grad/einsum" -> S0@0
%19: f32[8, 16] = step(%7) backward "relu.grad/step" -> S1@0
%20: f32[8, 16] = mul(%17, %19) backward "relu.grad/mul" -> S1@0
%21: f32[8, 16] = einsum(%3, %20) {equation="mk,mn->kn"} backward "einsum.grad/einsum" -> S1@0
%22: f32[8, 16] = mul(%21, %0) apply "mul" -> S1@0
%23: f32[8, 16] = sub(%4, %22) apply "sub" -> S1@0
%24: f32[16, 4] = mul(%18, %0) apply "mul" -> S0@0
%25: f32[16, 4] = sub(%5, %24) apply "sub" -> S0@0
update %4 = %23
update %5 = %25
metric "loss" = %14
)";

const Layouts kLayouts{{"w1", "S1@0"},  {"w2", "S0@0"},  {"%6", "S1@0"},  {"%7", "S1@0"},
                       {"%8", "P+@0"},  {"%16", "S1@0"}, {"%17", "S0@0"}, {"%18", "S1@0"},
                       {"%19", "S1@0"}, {"%20", "S1@0"}, {"%21", "S1@0"}, {"%22", "S1@0"},
                       {"%23", "S0@0"}, {"%24", "S0@0"}};

}  // namespace

TEST_CASE("a column split followed by a row split needs one all_reduce, in the forward pass") {
  const Graph graph = two_layers();
  const spmd::SpmdProgram program =
      spmd::partition(graph, laid_out_plan(graph, mesh_of({2}), kLayouts));
  verify(program);
  CHECK(to_string(program) == kColumnThenRow);
  // 2(n-1)/n of f32[8, 4]: 128 bytes.
  CHECK(spmd::traffic(program) == std::map<std::string, Traffic>{{"all_reduce", {1, 128}}});
}

TEST_CASE("traffic counts what runs once per micro-batch as often") {
  const Graph graph = two_layers(4);
  Layouts layouts;
  for (const auto& [value, layout] : kLayouts)
    if (value == "w1" || value == "w2") layouts[value] = layout;
  const spmd::SpmdProgram program =
      spmd::partition(graph, following_plan(graph, mesh_of({2}), layouts));
  double bytes = 0;
  for (const Node& node : program.graph.nodes) {
    if (node.op != &ops::all_reduce) continue;
    const double own =
        static_cast<double>(shard_bytes(program.graph.type(node.operands[0]),
                                        program.specs[node.operands[0]], program.mesh_of(node)));
    bytes += own * (node.region == Region::apply ? 1 : 4);
  }
  CHECK(bytes > 0);
  CHECK(spmd::traffic(program).at("all_reduce").bytes == bytes);
}

TEST_CASE("a plan without a needed reshard is refused") {
  const Graph graph = two_layers();
  ShardingPlan plan = laid_out_plan(graph, mesh_of({2}), kLayouts);
  plan.reshards.clear();
  CHECK_THROWS_WITH_AS(spmd::partition(graph, plan),
                       "partition: the plan has no reshard of \"einsum\" from P+@0 to R for use 9",
                       Bug);
}

TEST_CASE("the verifier names the node whose layouts do not follow") {
  const Graph graph = two_layers();
  const spmd::SpmdProgram good =
      spmd::partition(graph, laid_out_plan(graph, mesh_of({2}), kLayouts));
  spmd::SpmdProgram bad = good;
  bad.specs[6] = parse_spec("S0@0");
  CHECK_THROWS_WITH_AS(verify(bad),
                       "partitioned program: \"einsum\" (einsum) cannot take R, S1@0 to S0@0", Bug);
  bad = good;
  bad.specs[9] = parse_spec("P+@0");
  CHECK_THROWS_WITH_AS(
      verify(bad),
      "partitioned program: \"einsum.all_reduce\" (all_reduce) cannot take P+@0 to P+@0", Bug);
  bad = good;
  bad.graph.metrics[0].value = bad.graph.metrics[0].value;
  bad.specs[14] = parse_spec("P+@0");
  CHECK_THROWS_AS(verify(bad), Bug);
}

}  // namespace partition_test
