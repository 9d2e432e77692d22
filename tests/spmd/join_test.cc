// All parameters are updated by one node.
#include <doctest/doctest.h>

#include "alpa/train/training_step.h"
#include "parallel_steps.h"
#include "src/ir/recorder.h"
#include "src/lower/memory_plan.h"
#include "support/steps.h"

namespace join_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

int count(const spmd::SpmdProgram& program, const OpDef& op) {
  int nodes = 0;
  for (const Node& node : program.graph.nodes) nodes += node.op == &op;
  return nodes;
}

/// Nodes of that operator, by whether they have several members.
int count(const spmd::SpmdProgram& program, const OpDef& op, bool fused) {
  int nodes = 0;
  for (const Node& node : program.graph.nodes)
    nodes += node.op == &op && (node.results.size() > op.members->each) == fused;
  return nodes;
}

/// The only node of that operator in region apply.
const Node& only(const spmd::SpmdProgram& program, const OpDef& op) {
  const auto is_it = [&](const Node& node) {
    return node.op == &op && node.region == Region::apply;
  };
  const std::vector<Node>& nodes = program.graph.nodes;
  REQUIRE(std::count_if(nodes.begin(), nodes.end(), is_it) == 1);
  return *std::find_if(nodes.begin(), nodes.end(), is_it);
}

double arena(const spmd::SpmdProgram& program) {
  return static_cast<double>(lower::lower(program, 0, false).arena_bytes);
}

/// Three parameters that are updated as `add` says, in region apply, on two devices.
using AddUpdate = std::function<void(Recorder&, int i, Value w, Value gradient, Value rate)>;
spmd::SpmdProgram three_parameters(const AddUpdate& add) {
  Recorder g(1);
  const Value rate = g.input(InputKind::scalar, "learning_rate", {f32, {}});
  Value x = g.input(InputKind::batch, "x", {f32, {4, 8}});
  for (int i = 0; i < 3; ++i)
    x = tanh(
        matmul(x, g.parameter(fmt::format("w{}", i), {f32, {8, 8}}, Initializer::normal(0, 1))));
  const Value loss = mean(square(x));
  const Values parameters = g.parameters(), gradients = gradient(loss, parameters);
  g.set_region(Region::apply);
  g.metric("loss", loss);
  for (int i = 0; i < 3; ++i) add(g, i, parameters[i], gradients[i], rate);
  const Graph graph = g.finish();
  Layouts layouts{{"x", "S0@0"}};
  for (const Node& node : graph.nodes)
    if (node.op == &ops::multi_tensor_sgd) layouts[fmt::format("%{}", node.results[0])] = "R";
  const ShardingPlan plan = following_plan(graph, mesh_of({2}), layouts);
  return spmd::bucket_collectives(spmd::fuse_elementwise(spmd::partition(graph, plan)), 0);
}

Value add_sgd(Recorder& g, Value w, const std::string& name, Value gradient, Value rate,
              double momentum) {
  const Value velocity = g.input(InputKind::state, name + ".velocity", w.type());
  const Values results =
      g.emit(ops::multi_tensor_sgd, {w, velocity, gradient, rate},
             {{"momentum", momentum}, {"weight_decay", 0.0}, {"nesterov", std::int64_t{0}}});
  g.update(w, results[0]);
  g.update(velocity, results[1]);
  return results[0];
}

TEST_CASE("a joint update names states member by member, then gradients, then scalars") {
  const spmd::SpmdProgram program = spmd::fuse_optimizer_updates(
      three_parameters([](Recorder& g, int i, Value w, Value dw, Value rate) {
        add_sgd(g, w, fmt::format("p{}", i), dw, rate, 0.9);
      }));
  verify(program);
  CHECK(count(program, ops::multi_tensor_sgd, false) == 0);
  const Node& node = only(program, ops::multi_tensor_sgd);
  const auto name = [&](int value) { return program.graph.producer(value).name; };
  std::vector<std::string> names;
  for (const int value : node.operands) names.push_back(name(value));
  CHECK(names.size() == 3 * 3 + 1);
  CHECK(std::vector<std::string>(names.begin(), names.begin() + 6) ==
        std::vector<std::string>{"w0", "p0.velocity", "w1", "p1.velocity", "w2", "p2.velocity"});
  CHECK(names.back() == "learning_rate");
  CHECK(node.attributes.real("momentum") == 0.9);
  for (std::size_t i = 0; i < 6; ++i)
    CHECK(program.graph.updates[i] == Update{node.operands[i], node.results[i]});
  CHECK(program.graph.producer(node.operands[6]).op == &ops::all_reduce);
}

TEST_CASE("updates with other settings, other scalars or in the micro-batches stay apart") {
  const auto joined_with = [](const std::function<void(Recorder&, int, Value, Value, Value)>& add) {
    const spmd::SpmdProgram program = spmd::fuse_optimizer_updates(three_parameters(add));
    verify(program);
    return std::pair(count(program, ops::multi_tensor_sgd, false),
                     count(program, ops::multi_tensor_sgd, true));
  };
  CHECK(joined_with([](Recorder& g, int i, Value w, Value dw, Value rate) {
          add_sgd(g, w, fmt::format("p{}", i), dw, rate, i == 1 ? 0.5 : 0.9);
        }) == std::pair(1, 1));
  CHECK(joined_with([](Recorder& g, int i, Value w, Value dw, Value rate) {
          add_sgd(g, w, fmt::format("p{}", i), dw, i == 1 ? rate * 2 : rate, 0.9);
        }) == std::pair(1, 1));
  CHECK(joined_with([](Recorder& g, int i, Value w, Value dw, Value rate) {
          if (i == 1) g.set_region(Region::backward);
          add_sgd(g, w, fmt::format("p{}", i), dw, rate, 0.9);
          g.set_region(Region::apply);
        }) == std::pair(1, 1));
}

TEST_CASE("an update that another one depends on is not joined with it") {
  Value before;
  const spmd::SpmdProgram program = spmd::fuse_optimizer_updates(
      three_parameters([&](Recorder& g, int i, Value w, Value dw, Value rate) {
        before = add_sgd(g, w, fmt::format("p{}", i), i == 1 ? dw + before : dw, rate, 0.9);
      }));
  verify(program);  // 1 needs 0; 2 needs neither and joins one of them
  CHECK(count(program, ops::multi_tensor_sgd, false) == 1);
  CHECK(count(program, ops::multi_tensor_sgd, true) == 1);
}

TEST_CASE("one node updates all parameters, whatever ZeRO splits, and takes no more memory") {
  for (const int micro_batches : {1, 2})
    for (const std::int64_t bucket_bytes : {0, 1 << 20}) {
      CAPTURE(micro_batches);
      CAPTURE(bucket_bytes);
      const Graph graph = dense_layers(4, 64, 8, micro_batches);
      for (const spmd::SpmdProgram& fused :
           {zero(Zero::two, graph), zero(Zero::three, graph), data_parallel(5)}) {
        const spmd::SpmdProgram program = spmd::bucket_collectives(fused, bucket_bytes),
                                joined = spmd::fuse_optimizer_updates(program);
        verify(joined);
        CHECK(count(joined, ops::multi_tensor_adam, false) == 0);
        CHECK(only(joined, ops::multi_tensor_adam).results.size() ==
              3 * static_cast<std::size_t>(count(program, ops::multi_tensor_adam)));
        CHECK(arena(joined) <= 1.01 * arena(program));  // but for padding
      }
    }
}

TEST_CASE("updates wait for no other where that would raise the peak of what lives at once") {
  for (const int micro_batches : {1, 2}) {
    CAPTURE(micro_batches);
    // With four rows, parameters and gradients are most of what lives.
    const spmd::SpmdProgram program = spmd::bucket_collectives(
                                zero(Zero::two, dense_layers(6, 4, 16, micro_batches)), 0),
                            joined = spmd::fuse_optimizer_updates(program);
    verify(joined);
    CHECK(arena(joined) <= 1.02 * arena(program));  // but for padding
  }
}

TEST_CASE("joint updates change no bit of the result") {
  for (const Zero stage : {Zero::two, Zero::three})
    for (const int micro_batches : {1, 2}) {
      // Seven columns on three devices: 3, 3 and 1; a bias of seven likewise.
      const spmd::SpmdProgram program = spmd::bucket_collectives(
                                  zero(stage, dense_layers(3, 24, 7, micro_batches), 3), 0),
                              joined = spmd::fuse_optimizer_updates(program);
      CHECK(count(joined, ops::multi_tensor_adam, true) > 0);
      runtime::Executor alone(program), together(joined);
      CHECK(largest_difference(run_steps(alone, 3), run_steps(together, 3)) == 0);
    }
}

/// Dense layers whose gradients are scaled to a joint norm of 0.5 at most, on two devices.
spmd::SpmdProgram clipped(DType dtype, int micro_batches) {
  Recorder g(micro_batches);
  const Value rate = g.input(InputKind::scalar, "learning_rate", {f32, {}}),
              step = g.input(InputKind::scalar, "step", {f32, {}});
  Value x = g.input(InputKind::batch, "x", {dtype, {256 / micro_batches, 8}});
  for (int i = 0; i < 3; ++i)
    x = tanh(
        matmul(x, g.parameter(fmt::format("w{}", i), {dtype, {8, 8}}, Initializer::normal(0, 1))) +
        g.parameter(fmt::format("b{}", i), {dtype, {8}}, Initializer::normal(0, 1)));
  const Value loss = mean(square(cast(x, f32)));
  const Values parameters = g.parameters(), gradients = gradient(loss, parameters);
  g.set_region(Region::backward);
  Values sums;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    sums.push_back(micro_batch_sum(fmt::format("gradient{}", i), gradients[i]));
  const Value total = micro_batch_sum("loss.sum", loss);
  g.set_region(Region::apply);
  g.metric("loss", total);
  const Values shortened = clip_global_norm(sums, 0.5);
  for (std::size_t i = 0; i < sums.size(); ++i)
    add_update(g, parameters[i], fmt::format("p{}", i), shortened[i], rate, step,
               alpa::testing::StepOptimizer::adam);
  const Graph graph = g.finish();
  Layouts layouts{{"x", "S0@0"}};
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::state && graph.type(input.value).rank() == 2)
      layouts[input.name] = "S1@0";
  const ShardingPlan plan = following_plan(graph, mesh_of({2}), layouts);
  return spmd::bucket_collectives(
      spmd::fuse_elementwise(spmd::fuse_squares(spmd::partition(graph, plan))), 1 << 20);
}

TEST_CASE("one node squares and sums all gradients, and the squares are stored nowhere") {
  for (const DType dtype : {f32, bf16})
    for (const int micro_batches : {1, 2}) {
      CAPTURE(name_of(dtype));
      CAPTURE(micro_batches);
      const spmd::SpmdProgram program = clipped(dtype, micro_batches),
                              joined = spmd::fuse_squared_norms(program);
      verify(joined);
      const Node& node = only(joined, ops::squared_norms);
      CHECK(node.operands.size() == 6);
      CHECK(node.region == Region::apply);
      CHECK(arena(joined) <= 1.02 * arena(program));
      for (const int value : node.results) {
        CHECK(joined.graph.type(value) == TensorType{f32, {}});
        CHECK(to_string(joined.specs[value]) == "P+@0");
      }
      CHECK(count(program, ops::square) == 0);
      CHECK(joined.graph.nodes.size() == program.graph.nodes.size() - 5);
    }
}

TEST_CASE("a step with joint norms is the step without, to the rounding of a sum") {
  for (const int micro_batches : {1, 2}) {
    const spmd::SpmdProgram program = clipped(f32, micro_batches);
    runtime::Executor alone(program),
        together(spmd::fuse_squared_norms(spmd::fuse_optimizer_updates(program)));
    CHECK(largest_difference(run_steps(alone, 3), run_steps(together, 3)) < 1e-6);
  }
}

TEST_CASE("squares that are read elsewhere, or summed over some dimensions only, stay") {
  for (const bool whole : {false, true}) {
    Recorder g(1);
    const Value x = g.input(InputKind::batch, "x", {f32, {4, 8}});
    const Value squares = square(x);
    g.metric("a", whole ? sum(squares) : sum(sqrt(sum(squares, {0}))));
    g.metric("b", sum(whole ? exp(squares) : x));
    const Graph graph = g.finish();
    const spmd::SpmdProgram program =
        spmd::partition(graph, following_plan(graph, mesh_of({2}), {}));
    CHECK(count(spmd::fuse_squares(program), ops::squared_norms) == 0);
  }
}

TEST_CASE("the verifier sees a norm of a split tensor that is taken for the whole one's") {
  spmd::SpmdProgram program = spmd::fuse_squared_norms(clipped(f32, 1));
  CHECK_NOTHROW(verify(program));
  for (const int value : only(program, ops::squared_norms).results)
    program.specs[value] = ShardingSpec::replicated();
  CHECK_THROWS_AS(verify(program), Bug);
}

TEST_CASE("the verifier sees a member whose parameter lies otherwise than its states") {
  spmd::SpmdProgram program = spmd::fuse_optimizer_updates(
      spmd::bucket_collectives(zero(Zero::two, dense_layers(2, 64, 8, 1)), 1 << 20));
  CHECK_NOTHROW(verify(program));
  for (Node& node : program.graph.nodes)
    if (node.op == &ops::multi_tensor_adam)
      node.operands[3] = program.graph.producer(node.operands[3]).operands[0];
  CHECK_THROWS_AS(verify(program), Bug);
}

}  // namespace

}  // namespace join_test
