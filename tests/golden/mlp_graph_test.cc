#include <doctest/doctest.h>

#include "alpa/autograd/gradient.h"
#include "alpa/ops/ops.h"
#include "src/ops/all_ops.h"

using namespace alpa;

namespace {

/// x [8, 4] -> dense 16 -> relu -> dense 3, mean squared error, plain gradient descent.
Graph mlp() {
  Builder b;
  const Value x = b.input(InputKind::batch, "x", {f32, {8, 4}}),
              y = b.input(InputKind::batch, "y", {f32, {8, 3}});
  const auto dense = [&](int layer, Value in, std::int64_t width) {
    const std::string name = "dense" + std::to_string(layer);
    b.set_layer(layer);
    b.push_scope(name);
    const Value w =
        b.parameter(name + "/w", {f32, {in.shape()[1], width}}, Initializer::normal(0, 0.5));
    const Value bias = b.parameter(name + "/b", {f32, {width}}, Initializer::zeros());
    const Value out = matmul(in, w) + bias;
    b.pop_scope();
    return out;
  };
  const Value loss = mean(square(dense(1, relu(dense(0, x, 16)), 3) - y));
  b.set_layer(-1);
  b.metric("loss", loss);
  const Values gradients = gradient(loss, b.parameters());
  b.set_region(Region::apply);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    b.update(b.parameters()[i], b.parameters()[i] - gradients[i] * 0.1);
  return b.finish();
}

constexpr const char* kText = R"(graph micro_batches=1
%0: f32[8, 4] = input() {kind="batch", dtype=f32, shape=[8, 4]} forward "x"
%1: f32[8, 3] = input() {kind="batch", dtype=f32, shape=[8, 3]} forward "y"
%2: f32[4, 16] = input() {kind="state", dtype=f32, shape=[4, 16], init="normal", a=0.0, b=0.5} forward layer=0 "dense0/w"
%3: f32[16] = input() {kind="state", dtype=f32, shape=[16], init="constant", a=0.0, b=0.0} forward layer=0 "dense0/b"
%4: f32[8, 16] = einsum(%0, %2) {equation="mk,kn->mn"} forward layer=0 "dense0/einsum"
%5: f32[8, 16] = add(%4, %3) forward layer=0 "dense0/add"
%6: f32[8, 16] = relu(%5) forward layer=0 "relu"
%7: f32[16, 3] = input() {kind="state", dtype=f32, shape=[16, 3], init="normal", a=0.0, b=0.5} forward layer=1 "dense1/w"
%8: f32[3] = input() {kind="state", dtype=f32, shape=[3], init="constant", a=0.0, b=0.0} forward layer=1 "dense1/b"
%9: f32[8, 3] = einsum(%6, %7) {equation="mk,kn->mn"} forward layer=1 "dense1/einsum"
%10: f32[8, 3] = add(%9, %8) forward layer=1 "dense1/add"
%11: f32[8, 3] = sub(%10, %1) forward layer=1 "sub"
%12: f32[8, 3] = square(%11) forward layer=1 "square"
%13: f32[] = reduce_sum(%12) {axes=[0, 1], keep_dims=0} forward layer=1 "reduce_sum"
%14: f32[] = constant() {value=0.041666666666666664, dtype=f32, shape=[]} forward layer=1 "constant"
%15: f32[] = mul(%13, %14) forward layer=1 "mul"
%16: f32[] = constant() {value=0.08333333333333333, dtype=f32, shape=[]} backward layer=1 "square.grad/constant"
%17: f32[8, 3] = mul(%11, %16) backward layer=1 "square.grad/mul"
%18: f32[3] = reduce_sum(%17) {axes=[0], keep_dims=0} backward layer=1 "dense1/add.grad/reduce_sum"
%19: f32[8, 16] = einsum(%17, %7) {equation="mn,kn->mk"} backward layer=1 "dense1/einsum.grad/einsum"
%20: f32[16, 3] = einsum(%6, %17) {equation="mk,mn->kn"} backward layer=1 "dense1/einsum.grad/einsum"
%21: f32[8, 16] = step(%6) backward layer=0 "relu.grad/step"
%22: f32[8, 16] = mul(%19, %21) backward layer=0 "relu.grad/mul"
%23: f32[16] = reduce_sum(%22) {axes=[0], keep_dims=0} backward layer=0 "dense0/add.grad/reduce_sum"
%24: f32[4, 16] = einsum(%0, %22) {equation="mk,mn->kn"} backward layer=0 "dense0/einsum.grad/einsum"
%25: f32[] = constant() {value=0.1, dtype=f32, shape=[]} apply "constant"
%26: f32[4, 16] = mul(%24, %25) apply "mul"
%27: f32[4, 16] = sub(%2, %26) apply "sub"
%28: f32[] = constant() {value=0.1, dtype=f32, shape=[]} apply "constant"
%29: f32[16] = mul(%23, %28) apply "mul"
%30: f32[16] = sub(%3, %29) apply "sub"
%31: f32[] = constant() {value=0.1, dtype=f32, shape=[]} apply "constant"
%32: f32[16, 3] = mul(%20, %31) apply "mul"
%33: f32[16, 3] = sub(%7, %32) apply "sub"
%34: f32[] = constant() {value=0.1, dtype=f32, shape=[]} apply "constant"
%35: f32[3] = mul(%18, %34) apply "mul"
%36: f32[3] = sub(%8, %35) apply "sub"
update %2 = %27
update %3 = %30
update %7 = %33
update %8 = %36
metric "loss" = %15
)";

}  // namespace

TEST_CASE(
    "a two-layer MLP's step has 9 forward, 8 backward and 12 update nodes besides its 6 inputs and "
    "2 constants") {
  const Graph graph = mlp();
  CHECK(to_string(graph) == kText);
  CHECK(parse_graph(kText, all_ops()) == graph);
}
