// Steps on several devices: failures, messages, state, counted bytes.
#include "src/runtime/executor.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "src/ir/recorder.h"
#include "src/runtime/device_state.h"
#include "src/tensor/kernel.h"
#include "support/copying_op.h"
#include "support/error_text.h"
#include "support/steps.h"

namespace executor_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// Device whose kernel throws: the one whose shard starts at this row of a tensor of 8; -1: none.
std::atomic<std::int64_t> failing_row{-1};

void run_fragile(const KernelCall& call) {
  const KernelTensor& x = call.inputs[0];
  const bool second_micro_batch = call.step->micro_batch == 1;
  if (x.offset[0] == failing_row && second_micro_batch) throw std::runtime_error("out of paper");
  std::copy_n(x.data, x.type.bytes(), call.outputs[0].data);
}

const KernelDef kFragileKernel{run_fragile, nullptr, nullptr};

const OpDef fragile = copying_op("fragile", kFragileKernel);

Value linear(Recorder& g, Value x, Value y) {
  const Value w = g.parameter("w", {x.dtype(), {6, 4}}, Initializer::normal(0, 0.5));
  const Value b = g.parameter("b", {x.dtype(), {4}}, Initializer::zeros());
  return mean(square(matmul(x, w) + b - y));
}

Graph linear_step(int num_micro_batches = 1, DType dtype = f32) {
  return training_graph({dtype, {16, 6}}, {dtype, {16, 4}}, linear,
                        {.num_micro_batches = num_micro_batches});
}

const Layouts kDataParallel{{"x", "S0@0"}, {"y", "S0@0"}};

spmd::SpmdProgram data_parallel(const Graph& graph, int devices) {
  return lowered(graph, following_plan(graph, mesh_of({devices}), kDataParallel));
}

}  // namespace

TEST_CASE("a device that fails stops the others, names the place, and leaves the executor usable") {
  const auto model = [](Recorder& g, Value x, Value y) {
    return linear(g, g.emit_one(fragile, {x}), y);
  };
  const Graph graph =
      training_graph({f32, {16, 6}}, {f32, {16, 4}}, model, {.num_micro_batches = 2});
  for (const Overlap overlap : {Overlap::never, Overlap::always}) {
    runtime::Executor executor(data_parallel(graph, 4), {.overlap = overlap});
    const auto batch = random_batch(graph, 1);
    const auto scalars = scalars_of(graph, 1);
    const auto state = executor.make_state(3);
    failing_row = 4;  // of 8 rows of a micro-batch, on the third device
    const auto begin = std::chrono::steady_clock::now();
    const std::string message =
        "device 2: instruction 1 'fragile' (fragile, forward, micro-batch 2 of 2): out of paper";
    CHECK(error_of([&] { executor.run(*state, batch, scalars); }) == message);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(1));
    failing_row = -1;
    CHECK(error_of([&] { executor.run(*state, batch, scalars); }) ==
          "this state is unusable since a step failed: " + message +
              "; make a new one or restore a checkpoint");
    const auto fresh = executor.make_state(3);
    const double loss = executor.run(*fresh, batch, scalars).at("loss");
    runtime::Executor serial(lowered(graph, replicated_plan(graph, mesh_of({1}))));
    CHECK(loss == doctest::Approx(serial.run(*serial.make_state(3), batch, scalars).at("loss")));
  }
}

TEST_CASE("wrong batches and names are refused before anything runs") {
  const Graph graph = linear_step(2);
  runtime::Executor executor(data_parallel(graph, 2)), other(data_parallel(graph, 2));
  const auto state = executor.make_state(0);
  const auto batch = random_batch(graph, 1);
  const auto scalars = scalars_of(graph, 1);
  const auto with = [&](const std::string& name, Array array) {
    auto changed = batch;
    changed[name] = std::move(array);
    return changed;
  };
  const auto without = [](auto map, const std::string& name) {
    map.erase(name);
    return map;
  };
  CHECK(error_of([&] {
          executor.run(*state, with("z", Array({f32, {1}})), scalars);
        }) == "no batch input is called \"z\"; known are \"y\", \"x\"");
  CHECK(error_of([&] { executor.run(*state, without(batch, "x"), scalars); }) ==
        "batch input \"x\" is missing; give an array of type f32[16, 6]");
  CHECK(error_of([&] {
          executor.run(*state, with("x", Array({f32, {8, 6}})), scalars);
        }) == "batch input \"x\" is f32[8, 6], but the step takes f32[16, 6]");
  CHECK(error_of([&] {
          executor.run(*state, with("x", Array({f64, {16, 6}})), scalars);
        }) == "batch input \"x\" is f64[16, 6], but the step takes f32[16, 6]");
  CHECK(error_of([&] { executor.run(*state, batch, without(scalars, "learning_rate")); }) ==
        "scalar input \"learning_rate\" is missing; give it a value");
  auto more = scalars;
  more["temperature"] = 1;
  CHECK(error_of([&] {
          executor.run(*state, batch, more);
        }).find("no scalar input is called \"temperature\"; known are") == 0);
  CHECK(error_of([&] { executor.read(*state, "v"); }) ==
        "no state is called \"v\"; known are \"w\", \"b\"");
  CHECK(error_of([&] {
          executor.write(*state, "w", Array({f32, {4, 6}}));
        }) == "state \"w\" is f32[6, 4], but the array is f32[4, 6]");
  CHECK(error_of([&] { other.run(*state, batch, scalars); }) ==
        "executor: this state was made by another executor; use the one whose make_state returned "
        "it");
  CHECK(error_of([&] { runtime::Executor(data_parallel(graph, 2), {.threads_per_device = -1}); }) ==
        "executor: -1 threads per device; give at least 1, or 0 to share all cores");
  CHECK_NOTHROW(executor.run(*state, batch, scalars));
}

TEST_CASE("a metric that is not finite is an error if asked for") {
  const Graph graph = linear_step();
  auto batch = random_batch(graph, 1);
  batch["x"] = Array(std::vector<float>(16 * 6, 1e30f), {16, 6});
  runtime::Executor lenient(data_parallel(graph, 2)),
      strict(data_parallel(graph, 2), {.check_finite = true});
  CHECK(std::isinf(lenient.run(*lenient.make_state(0), batch, scalars_of(graph, 1)).at("loss")));
  CHECK(error_of([&] { strict.run(*strict.make_state(0), batch, scalars_of(graph, 1)); }) ==
        "metric \"loss\" is inf in step 1; lower the learning rate, clip gradients, "
        "or look for a division by zero or log of 0");
}

TEST_CASE("state is read whole and written to every shard, whatever the layout") {
  const Graph graph = linear_step();
  for (const char* layout : {"R", "S0@0", "S1@0", "S0@1 S0@0", "S0@0 S1@1"}) {
    CAPTURE(layout);
    runtime::Executor executor(
        lowered(graph, following_plan(graph, mesh_of({2, 2}), {{"w", layout}})));
    const auto state = executor.make_state(0);
    std::vector<float> numbers(24);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
    executor.write(*state, "w", Array(numbers, {6, 4}));
    const Array read = executor.read(*state, "w");
    CHECK(std::equal(numbers.begin(), numbers.end(), read.elements_as<float>().begin()));
  }
}

TEST_CASE("initial values are the same under every layout and follow their distribution") {
  Recorder g;
  const Value w = g.parameter("w", {f32, {60, 70}}, Initializer::normal(1, 2));
  const Value u = g.parameter("u", {f64, {63}}, Initializer::uniform(-1, 3));
  g.update(w, w);
  g.update(u, u);
  const Graph graph = g.finish();
  runtime::Executor serial(lowered(graph, replicated_plan(graph, mesh_of({1}))));
  const std::vector<double> expected = serial.read(*serial.make_state(7), "w").to_doubles();
  double sum = 0, squares = 0;
  for (double x : expected) sum += x, squares += (x - 1) * (x - 1);
  CHECK(sum / 4200 == doctest::Approx(1).epsilon(0.15));
  CHECK(squares / 4200 == doctest::Approx(4).epsilon(0.1));
  for (double x : serial.read(*serial.make_state(7), "u").to_doubles()) CHECK((x >= -1 && x < 3));
  CHECK(serial.read(*serial.make_state(8), "w").to_doubles() != expected);
  for (const char* layout : {"R", "S0@0", "S1@0", "S1@1 S1@0"}) {
    runtime::Executor executor(
        lowered(graph, following_plan(graph, mesh_of({4, 2}), {{"w", layout}, {"u", "S0@0"}})));
    CHECK(executor.read(*executor.make_state(7), "w").to_doubles() == expected);
  }
}

TEST_CASE("overlapping collectives with work changes no bit") {
  const auto model = [](Recorder& g, Value x, Value y) {
    for (int i = 0; i < 3; ++i)
      x = tanh(
          matmul(x, g.parameter(fmt::format("w{}", i), {f32, {6, 6}}, Initializer::normal(0, 1))));
    return mean(square(x - y));
  };
  const Graph graph = training_graph({f32, {16, 6}}, {f32, {16, 6}}, model, {});
  const spmd::SpmdProgram program =
      lowered(graph, following_plan(graph, mesh_of({3}), kDataParallel), 0);
  runtime::Executor plain(program, {.overlap = Overlap::never}),
      overlapped(program, {.overlap = Overlap::always});
  int starts = 0;
  for (const lower::Instruction& instruction :
       overlapped.device_program(0).lists.back().instructions)
    starts += instruction.kind == lower::Instruction::Kind::start;
  CHECK(starts > 0);
  const StepOutcome a = run_steps(plain, 3), b = run_steps(overlapped, 3);
  CHECK(a.losses == b.losses);
  CHECK(a.state == b.state);
}

TEST_CASE("several executors run at once, each as if alone") {
  const Graph graph = linear_step();
  const spmd::SpmdProgram program = data_parallel(graph, 3);
  runtime::Executor first(program), second(program);
  const StepOutcome alone = run_steps(first, 5);
  StepOutcome outcomes[2];
  std::thread one([&] { outcomes[0] = run_steps(first, 5); }),
      two([&] { outcomes[1] = run_steps(second, 5); });
  one.join();
  two.join();
  for (const StepOutcome& outcome : outcomes) {
    CHECK(outcome.losses == alone.losses);
    CHECK(outcome.state == alone.state);
  }
}

TEST_CASE("in double precision two plans agree to 1e-10") {
  const Graph graph = linear_step(2, f64);
  runtime::Executor serial(lowered(graph, replicated_plan(graph, mesh_of({1})))),
      parallel(data_parallel(graph, 4));
  CHECK(largest_difference(run_steps(serial, 3), run_steps(parallel, 3)) < 1e-10);
}

TEST_CASE("measured traffic is the planned one") {
  const Graph graph = linear_step(2);
  for (const std::vector<int>& shape : {std::vector<int>{4}, {2, 2}}) {
    const spmd::SpmdProgram program = lowered(
        graph,
        following_plan(graph, mesh_of(shape), {{"x", "S0@0"}, {"w", "S0@0"}, {"y", "S1@0"}}));
    for (const Overlap overlap : {Overlap::never, Overlap::always}) {
      runtime::Executor executor(program, {.overlap = overlap});
      const auto state = executor.make_state(0);
      for (int step = 1; step <= 2; ++step)
        executor.run(*state, random_batch(graph, step), scalars_of(graph, step));
      CHECK(!spmd::traffic(program).empty());
      CHECK(executor.measured_traffic() == spmd::traffic(program));
    }
  }
}

TEST_CASE(
    "an executor takes over what was lowered for it, and lowers anew what was lowered for "
    "another") {
  const spmd::SpmdProgram program = data_parallel(linear_step(), 2);
  const ExecutorOptions options{.threads_per_device = 1, .overlap = Overlap::never};
  lower::LoweredProgram lowered = lower::lower_program(program, options, "cpu");
  const std::int64_t bytes = lowered.firsts.front().arena_bytes;
  lowered.firsts.front().arena_bytes += 4096;  // by this it is recognised
  CHECK(runtime::Executor(program, options, "cpu", {}, lowered).memory_bytes() == bytes + 4096);
  CHECK(runtime::Executor(program, options, "cpu").memory_bytes() == bytes);
  const ExecutorOptions others{.threads_per_device = 2, .overlap = Overlap::never};
  CHECK(runtime::Executor(program, others, "cpu", {}, lowered).memory_bytes() ==
        lower::lower_program(program, others, "cpu").firsts.front().arena_bytes);
}

}  // namespace executor_test
