// What a user's program does: train, read and write state, save and load plans, run
// several executables at once.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "src/base/thread_team.h"
#include "src/plan/cost/cost_model.h"

namespace program_test {

using namespace alpa;

namespace {

constexpr std::int64_t kBatch = 32, kDim = 16;

nn::Sequential make_mlp() {
  nn::Sequential mlp;
  for (int i = 0; i < 2; ++i)
    mlp.add(nn::Dense(4 * kDim)).add(nn::ReLU()).add(nn::Dense(kDim)).add(nn::ReLU());
  return mlp;
}

/// Weights are what fills its memory.
nn::Sequential wide_mlp() {
  nn::Sequential mlp;
  for (int i = 0; i < 4; ++i) mlp.add(nn::Dense(8 * kDim)).add(nn::ReLU());
  return mlp.add(nn::Dense(kDim));
}

TrainingStep make_step(const nn::Sequential& mlp) {
  return training_step(
      {{"x", {f32, {kBatch, kDim}}}, {"y", {f32, {kBatch, kDim}}}},
      [mlp](const Batch& b) { return mean(square(mlp(b["x"]) - b["y"])); },
      optim::Adam{.learning_rate = 1e-2});
}

std::map<std::string, Array> next_batch() {
  const Dataset data = linear_dataset(kBatch, kDim, 1);
  return {{"x", data.x}, {"y", data.y}};
}

/// Losses of `steps` steps from seed 0.
std::vector<double> losses(const Executable& train, int steps) {
  TrainState state = train.init(0);
  std::vector<double> values;
  for (int i = 0; i < steps; ++i) values.push_back(train.run(state, next_batch()).loss());
  return values;
}

}  // namespace

TEST_CASE("the program of the first page, scaled down, learns") {
  nn::Sequential mlp;
  for (int i = 0; i < 5; ++i)
    mlp.add(nn::Dense(4 * kDim)).add(nn::ReLU()).add(nn::Dense(kDim)).add(nn::ReLU());

  TrainingStep step = training_step(
      {{"x", {f32, {kBatch, kDim}}}, {"y", {f32, {kBatch, kDim}}}},
      [&](const Batch& b) { return mean(square(mlp(b["x"]) - b["y"])); },
      optim::Adam{.learning_rate = 1e-3});

  Executable train = parallelize(step, ShardParallel{.num_micro_batches = 4}, Cluster::local(8));
  TrainState state = train.init(/*seed=*/0);
  std::vector<double> loss;
  for (int i = 0; i < 10; ++i) {
    StepResult result = train.run(state, next_batch());
    loss.push_back(result.loss());
  }
  for (std::size_t i = 1; i < loss.size(); ++i) CHECK(loss[i] < loss[i - 1]);
  CHECK(state.step() == 10);
}

TEST_CASE("a distributed array knows type, sharding and mesh, and gathers its content") {
  const Executable train = parallelize(make_step(make_mlp()), Zero3Parallel{}, Cluster::local(4));
  TrainState state = train.init(0);
  const DistributedArray kernel = state["0.kernel"];
  CHECK(kernel.type() == TensorType{f32, {kDim, 4 * kDim}});
  CHECK(kernel.sharding() == train.sharding_of("0.kernel"));
  CHECK_FALSE(kernel.sharding().is_replicated());
  CHECK(kernel.mesh().num_devices() == 4);
  const std::vector<double> before = kernel.to_host().to_doubles();
  train.run(state, next_batch());
  CHECK(kernel.to_host().to_doubles() != before);  // it shows the present content
}

TEST_CASE("every method starts from the same numbers") {
  const TrainingStep step = make_step(make_mlp());
  const std::vector<double> serial =
      parallelize(step, Serial{}, Cluster::local(1)).init(7)["4.kernel"].to_host().to_doubles();
  const Executable zero3 = parallelize(step, Zero3Parallel{}, Cluster::local(3));
  CHECK(zero3.init(7)["4.kernel"].to_host().to_doubles() == serial);
  CHECK(zero3.init(8)["4.kernel"].to_host().to_doubles() != serial);
}

TEST_CASE("state is written by name, and names come in the order of the model") {
  const Executable train = parallelize(make_step(make_mlp()), Zero2Parallel{}, Cluster::local(4));
  TrainState state = train.init(0);
  CHECK(state.names()[0] == "0.kernel");
  CHECK(state.names()[1] == "0.bias");
  CHECK(state.names().size() == 8 * 3);
  CHECK(parameter_names(train.graph()).size() == 8);
  std::vector<float> values(4 * kDim);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  state["0.bias"] = Array(values, {4 * kDim});
  CHECK(state["0.bias"].to_host().to_doubles() ==
        std::vector<double>(values.begin(), values.end()));
}

TEST_CASE("training goes on from a state that was read out and written into another") {
  const Executable train = parallelize(make_step(make_mlp()), Zero3Parallel{}, Cluster::local(4));
  const Executable other = parallelize(make_step(make_mlp()), DataParallel{}, Cluster::local(2));
  TrainState state = train.init(0), copy = other.init(1);
  CHECK(copy.copy_from(state) == 24);
  for (const std::string& name : state.names())
    CHECK(copy[name].to_host().to_doubles() == state[name].to_host().to_doubles());
}

TEST_CASE("an evaluation step takes over the trained parameters and nothing else") {
  const nn::Sequential mlp = make_mlp();
  const Executable train = parallelize(make_step(mlp), ShardParallel{}, Cluster::local(2));
  TrainState state = train.init(0);
  for (int i = 0; i < 3; ++i) train.run(state, next_batch());
  const TrainingStep evaluation =
      evaluation_step({{"x", {f32, {kBatch, kDim}}}, {"y", {f32, {kBatch, kDim}}}},
                      [mlp](const Batch& b) { return mean(square(mlp(b["x"]) - b["y"])); });
  const Executable evaluate = parallelize(evaluation, ShardParallel{}, Cluster::local(2));
  TrainState frozen = evaluate.init(0);
  CHECK(frozen.copy_from(state) == 8);
  const double loss = evaluate.run(frozen, next_batch()).loss();
  CHECK(loss == doctest::Approx(train.run(state, next_batch()).loss()).epsilon(1e-6));
  CHECK(evaluate.run(frozen, next_batch()).loss() == loss);
}

TEST_CASE("a saved plan gives the same training, bit for bit, without a solver") {
  const std::string path = "program_test_plan.json";
  const TrainingStep step = make_step(make_mlp());
  const ShardParallel method{.num_micro_batches = 2, .mesh_shape = {2, 2}};
  const Executable train = parallelize(step, method, Cluster::local(4));
  train.save_plan(path);
  const Executable again = load_plan(step, method, Cluster::local(4), path);
  CHECK(losses(again, 3) == losses(train, 3));
  CHECK(again.memory_bytes() == train.memory_bytes());
  CHECK(to_json(again.planned()) == to_json(train.planned()));
  std::remove(path.c_str());
}

TEST_CASE("two threads train two executables at once, each as if it were alone") {
  const Executable a = parallelize(make_step(make_mlp()), ShardParallel{}, Cluster::local(4));
  const Executable b = parallelize(make_step(make_mlp()), Zero2Parallel{}, Cluster::local(3));
  const std::vector<double> alone_a = losses(a, 20), alone_b = losses(b, 20);
  std::vector<double> together_a, together_b;
  std::thread thread([&] { together_a = losses(a, 20); });
  together_b = losses(b, 20);
  thread.join();
  CHECK(together_a == alone_a);
  CHECK(together_b == alone_b);
}

TEST_CASE("one executable trains several states, each on its own") {
  const Executable train = parallelize(make_step(make_mlp()), ShardParallel{}, Cluster::local(2));
  const std::vector<double> expected = losses(train, 2);
  TrainState first = train.init(0), second = train.init(0);
  CHECK(train.run(first, next_batch()).loss() == expected[0]);
  CHECK(train.run(second, next_batch()).loss() == expected[0]);
  CHECK(train.run(first, next_batch()).loss() == expected[1]);
}

TEST_CASE("a custom step is written on the graph: power iteration for the largest eigenvalue") {
  const auto build = [](Builder& builder, const Batch& b) {
    const Value v = builder.parameter("v", {f64, {3, 1}}, Initializer::ones());
    const Value product = matmul(b["a"], v);
    const Value norm = sqrt(sum(square(product)));
    builder.update(v, product / norm);
    builder.metric("eigenvalue", norm);
  };
  const Executable iterate =
      parallelize(custom_step({{"a", {f64, {3, 3}}}}, build), ShardParallel{}, Cluster::local(3));
  TrainState state = iterate.init(0);
  const Array a(std::vector<double>{2, 1, 0, 1, 2, 1, 0, 1, 2}, {3, 3});
  double eigenvalue = 0;
  for (int i = 0; i < 60; ++i) eigenvalue = iterate.run(state, {{"a", a}}).metrics["eigenvalue"];
  CHECK(eigenvalue == doctest::Approx(2 + std::sqrt(2.0)).epsilon(1e-12));
}

TEST_CASE("a custom step has scalars of its own, and gradients where it asks for them") {
  const auto build = [](Builder& builder, const Batch& b) {
    const Value w = builder.parameter("w", {f64, {}}, Initializer::constant(1));
    const Value scale = builder.input(InputKind::scalar, "scale", {f64, {}});
    const ValueAndGrad loss = value_and_grad([&] { return mean(square(b["x"] * w)) * scale; }, {w});
    builder.metric("loss", loss.value);
    builder.metric("slope", loss.gradients[0]);
  };
  const auto scalars = [](std::int64_t step) {
    return std::map<std::string, double>{{"scale", 10.0 * step}};
  };
  const Executable executable = parallelize(custom_step({{"x", {f64, {2}}}}, build, scalars),
                                            ShardParallel{}, Cluster::local(2));
  TrainState state = executable.init(0);
  const std::map<std::string, Array> batch = {{"x", Array(std::vector<double>{1, 3}, {2})}};
  executable.run(state, batch);
  const StepResult second = executable.run(state, batch);  // step 2: scale 20; mean of squares 5
  CHECK(second.loss() == doctest::Approx(100));
  CHECK(second.metrics["slope"] == doctest::Approx(200));
}

TEST_CASE("planning needs no devices: a cluster nobody has") {
  Cluster cluster = Cluster::local(8);
  cluster.num_hosts = 2;
  cluster.backend = "cuda";
  const CompiledStep planned =
      plan_only(make_step(make_mlp()), ShardParallel{.mesh_shape = {2, 8}}, cluster);
  CHECK(planned.plan.sharding().mesh.num_devices() == 16);
  CHECK(planned.memory_bytes > 0);
  CHECK_FALSE(explain(planned, cluster).empty());
}

TEST_CASE("a memory budget is kept to the byte, at the price of time") {
  nn::Sequential mlp;
  for (int i = 0; i < 9; ++i) mlp.add(nn::Dense(128)).add(nn::ReLU());
  mlp.add(nn::Dense(128));
  const TrainingStep step = training_step(
      {{"x", {f32, {256, 128}}}, {"y", {f32, {256, 128}}}},
      [&](const Batch& b) { return mean(square(mlp(b["x"]) - b["y"])); }, optim::Adam{});
  const CompiledStep free = plan_only(step, ShardParallel{.mesh_shape = {8}}, Cluster::local(8));
  const std::int64_t budget = free.memory_bytes * 3 / 4;
  const Executable train = parallelize(
      step, ShardParallel{.mesh_shape = {8}, .memory_budget_bytes = budget}, Cluster::local(8));
  TrainState state = train.init(0);
  const Dataset data = linear_dataset(256, 128, 1);
  train.run(state, {{"x", data.x}, {"y", data.y}});
  CHECK(train.measured_bytes(state) <= budget);
  CHECK(train.memory_bytes() == train.measured_bytes(state));
  CHECK(train.plan().cost.objective_seconds >= free.plan.cost.objective_seconds);
}

TEST_CASE(
    "ZeRO-3 under a budget gathers weights again, measures what it planned, and trains the same") {
  const TrainingStep step = make_step(wide_mlp());
  const CompiledStep free = plan_only(step, Zero3Parallel{}, Cluster::local(8));
  const std::int64_t budget = free.memory_bytes * 4 / 5;
  const Executable tight =
      parallelize(step, Zero3Parallel{.memory_budget_bytes = budget}, Cluster::local(8));
  CHECK(tight.traffic().at("all_gather").count > free.traffic().at("all_gather").count);
  TrainState state = tight.init(0);
  std::vector<double> tight_losses;
  for (int i = 0; i < 3; ++i) tight_losses.push_back(tight.run(state, next_batch()).loss());
  CHECK(tight.memory_bytes() <= budget);
  CHECK(tight.measured_bytes(state) == tight.memory_bytes());
  const std::vector<double> serial = losses(parallelize(step, Serial{}, Cluster::local(1)), 3);
  for (int i = 0; i < 3; ++i) CHECK(tight_losses[i] == doctest::Approx(serial[i]).epsilon(1e-5));
}

TEST_CASE("every pass is written to the dump directory") {
  const std::string directory = "program_test_dump";
  plan_only(make_step(make_mlp()), ShardParallel{.dump_dir = directory}, Cluster::local(2));
  for (const char* name : {"01_graph.txt", "02_plan.json", "03_partitioned.txt", "04_fused.txt",
                           "05_bucketed.txt", "06_device0.txt"})
    CHECK(std::filesystem::file_size(directory + "/" + name) > 0);
  std::filesystem::remove_all(directory);
}

TEST_CASE("dropout draws the same mask under every plan") {
  const nn::Sequential mlp{nn::Dense(24), nn::ReLU(), nn::Dropout(0.5), nn::Dense(kDim)};
  const TrainingStep step = make_step(mlp);
  const std::vector<double> serial = losses(parallelize(step, Serial{}, Cluster::local(1)), 3);
  for (const Method& method : {Method(DataParallel{}), Method(ShardParallel{.mesh_shape = {3}})}) {
    const std::vector<double> parallel = losses(parallelize(step, method, Cluster::local(3)), 3);
    for (int i = 0; i < 3; ++i) CHECK(parallel[i] == doctest::Approx(serial[i]).epsilon(1e-5));
  }
}

// Each device shares a batched product's matrices among its threads.
TEST_CASE("a batched product is right with any number of threads, the default among them") {
  const TrainingStep step =
      custom_step({{"x", {f32, {4, 4, 8, 8}}}}, [](Builder& g, const Batch& b) {
        const Value o = einsum("bnqd,bnkd->bnqk", b["x"], b["x"]);
        g.update(g.parameter("o", o.type(), {}), o);
      });
  for (int threads : {0, 1, 2, 3, 7}) {
    const Executable e =
        parallelize(step, Serial{.executor = {.threads_per_device = threads}}, Cluster::local(1));
    TrainState s = e.init(0);
    e.run(s, {{"x", Array(std::vector<float>(1024, 1.f), {4, 4, 8, 8})}});
    CAPTURE(threads);
    for (double v : s["o"].to_host().to_doubles()) REQUIRE(v == 8);
    CHECK(e.measured_bytes(s) == e.memory_bytes());
  }
}

TEST_CASE("planned bytes grow with the threads of a device where kernels need scratch for each") {
  const TrainingStep step =
      custom_step({{"x", {f32, {64, 16, 32, 32}}}}, [](Builder& g, const Batch& b) {
        const Value o = einsum("bnqd,bnkd->bnqk", b["x"], b["x"]);
        g.update(g.parameter("o", o.type(), {}), o);
      });
  const auto bytes = [&](int threads) {
    return plan_only(step, Serial{.executor = {.threads_per_device = threads}}, Cluster::local(1))
        .memory_bytes;
  };
  CHECK(bytes(8) >= bytes(1));
  CHECK(bytes(0) == bytes(usable_cores()));
}

}  // namespace program_test
