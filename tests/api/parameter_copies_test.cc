// Layers of mixed precision read copies of parameters, which updates keep: no micro-batch converts
// a parameter, and users see no difference.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cmath>

#include "src/ir/op_def.h"
#include "src/lower/lower_program.h"
#include "src/lower/step_counts.h"
#include "support/temporary_folder.h"

namespace parameter_copies_test {

using namespace alpa;
using alpa::testing::TemporaryFolder;

namespace {

constexpr std::int64_t kRows = 24, kWidth = 8;

/// A parameter as a layer reads it. Behind a reshape it is converted, not copied.
Value in_bf16(Value w, bool copied) {
  if (copied) return cast(w, bf16);
  return reshape(cast(reshape(w, {w.dim(0) * w.dim(1)}), bf16), w.shape());
}

/// Two products in bf16, the first parameter once more behind the second.
LossAndMetrics model(const Batch& b, bool copied) {
  Builder& builder = b.builder();
  const Value first = in_bf16(
      builder.parameter("first", {f32, {kWidth, kWidth}}, Initializer::normal(0, 0.5)), copied);
  const Value last = in_bf16(
      builder.parameter("last", {f32, {kWidth, kWidth}}, Initializer::uniform(-1, 1)), copied);
  const Value h = mark_pipeline_boundary(relu(matmul(cast(b["x"], bf16), first)));
  const Value y = matmul(matmul(h, last), transpose(first));
  return mean(square(cast(y, f32) - b["y"]));
}

const std::vector<BatchInput> kInputs = {{"x", {f32, {kRows, kWidth}}},
                                         {"y", {f32, {kRows, kWidth}}}};

TrainingStep step_of(bool copied, const Optimizer& optimizer, const StepOptions& options = {}) {
  return training_step(
      kInputs, [=](const Batch& b) { return model(b, copied); }, optimizer, options);
}

BatchData batch(int number, std::int64_t rows = kRows) {
  std::vector<float> x(rows * kWidth), y(rows * kWidth);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(std::sin(static_cast<double>(i) + number)),
    y[i] = static_cast<float>(std::cos(static_cast<double>(3 * i) - number));
  return {{"x", Array(x, {rows, kWidth})}, {"y", Array(y, {rows, kWidth})}};
}

/// Losses of steps, and a loss after other content was written to both parameters.
std::vector<double> losses(const Executable& train, int steps = 6) {
  TrainState state = train.init(3);
  std::vector<double> all;
  for (int i = 0; i < steps; ++i) all.push_back(train.run(state, batch(i)).loss());
  Array other = state["last"].to_host();
  for (float& element : other.mutable_elements_as<float>()) element *= -1.5F;
  state["first"] = other;
  for (int i = 0; i < 2; ++i) all.push_back(train.run(state, batch(i)).loss());
  return all;
}

/// Launches of a kind in micro-batches of the first device.
std::int64_t launches(const CompiledStep& planned, const std::string& kind) {
  const auto rows = lower::count_step(*planned.program, planned.lowered->firsts.front());
  for (const lower::KindCount& row : rows)
    if (row.kind == kind) return row.in_micro_batches;
  return 0;
}

const std::vector<Optimizer> kOptimizers = {
    optim::Adam{.learning_rate = 0.02},
    optim::Sgd{.learning_rate = 0.05},
    optim::Sgd{.learning_rate = 0.02, .momentum = 0.9},
    optim::Lion{.learning_rate = 0.01},
};

}  // namespace

TEST_CASE("steps with copies compute what steps with conversions do, bit for bit") {
  for (const Optimizer& optimizer : kOptimizers)
    for (const int micro_batches : {1, 3}) {
      const Serial serial{.num_micro_batches = micro_batches};
      const auto of = [&](bool copied, const StepOptions& options) {
        return losses(parallelize(step_of(copied, optimizer, options), serial, Cluster::local(1)));
      };
      CHECK(of(true, {}) == of(false, {}));
      const StepOptions guarded{.frozen = {"last"}, .loss_scale = LossScale{}, .ema = 0.5};
      CHECK(of(true, guarded) == of(false, guarded));
    }
}

TEST_CASE("under every method copies follow their parameters") {
  const auto near = [](const std::vector<double>& a, const std::vector<double>& b) {
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(0.01));
  };
  for (const Optimizer& optimizer : {kOptimizers[0], kOptimizers[3]}) {
    const TrainingStep step = step_of(true, optimizer), converting = step_of(false, optimizer);
    const std::vector<double> expected =
        losses(parallelize(converting, Serial{.num_micro_batches = 2}, Cluster::local(1)));
    CHECK(std::abs(expected[5] - expected[0]) > 0.05 * expected[0]);
    const PipeshardParallel stages{
        .num_micro_batches = 2, .layers = ManualLayers{}, .stages = UniformStages{2}};
    for (const Method& method : {Method(DataParallel{.num_micro_batches = 2}),
                                 Method(Zero2Parallel{.num_micro_batches = 2}),
                                 Method(Zero3Parallel{.num_micro_batches = 2}),
                                 Method(ShardParallel{.num_micro_batches = 2}), Method(stages)})
      near(losses(parallelize(step, method, Cluster::local(4))), expected);
  }
}

TEST_CASE("no micro-batch converts a parameter") {
  const Serial method{.num_micro_batches = 3};
  const auto casts = [&](bool copied) {
    return launches(plan_only(step_of(copied, kOptimizers[0]), method, Cluster::local(1)), "cast");
  };
  CHECK(casts(true) == 3 * 1);   // x; that of the result is part of a loop
  CHECK(casts(false) == 3 * 5);  // and both parameters and their gradients
}

TEST_CASE("copies are neither named nor saved; a restored run goes on to the bit") {
  const TrainingStep step = step_of(true, kOptimizers[0]);
  const Executable train = parallelize(step, Zero2Parallel{}, Cluster::local(2));
  TrainState state = train.init(1);
  CHECK(state.names() == std::vector<std::string>{"first", "last", "first.adam_m", "first.adam_v",
                                                  "last.adam_m", "last.adam_v"});
  CHECK_THROWS_AS(state["first.bf16"], Error);
  const TemporaryFolder folder("parameter_copies");
  Checkpoints checkpoints(folder.path());
  train.run(state, batch(0));
  checkpoints.save(state);
  checkpoints.wait();
  const double expected = train.run(state, batch(1)).loss();
  TrainState other = train.init(2);
  checkpoints.restore(other, 1);
  CHECK(train.run(other, batch(1)).loss() == expected);
}

TEST_CASE("steps that follow read and update the copies of the first") {
  const auto evaluation = [](bool copied) {
    return evaluation_step(kInputs, [=](const Batch& b) { return model(b, copied); });
  };
  const auto run = [&](bool copied) {
    const TrainingStep steps[] = {step_of(copied, kOptimizers[0]), evaluation(copied),
                                  step_of(copied, kOptimizers[0], {.frozen = {"last"}})};
    const auto all = parallelize(steps, Serial{}, Cluster::local(1));
    TrainState state = all[0].init(5);
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i) {
      losses.push_back(all[0].run(state, batch(i)).loss());
      losses.push_back(all[1].run(state, batch(i)).loss());
      losses.push_back(all[2].run(state, batch(i)).loss());
      losses.push_back(all[0].run(state, batch(i, kRows / 2)).loss());
    }
    return losses;
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("a step that follows one without copies has none") {
  const TrainingStep steps[] = {step_of(false, kOptimizers[0]), step_of(true, kOptimizers[0])};
  const auto both = parallelize(steps, Serial{}, Cluster::local(1));
  TrainState state = both[0].init(5), alone = both[0].init(5);
  for (int i = 0; i < 3; ++i)
    CHECK(both[1].run(state, batch(i)).loss() == both[0].run(alone, batch(i)).loss());
}

TEST_CASE("ZeRO-2 gathers copies: half the bytes of parameters in f32") {
  const auto gathered = [](Precision precision) {
    const auto mlp = [](const Batch& b) {
      const nn::Dense up(64, {.bias = false}), down(64, {.bias = false});
      return LossAndMetrics(mean(square(nn::at_least_f32(down(relu(up(b["x"])))))));
    };
    const TrainingStep step =
        training_step({{"x", {f32, {64, 64}}}}, mlp, optim::Adam{}, {.precision = precision});
    return plan_only(step, Zero2Parallel{}, Cluster::local(4)).traffic().at("all_gather").bytes;
  };
  CHECK(gathered(Precision::as_written) == 2 * gathered(bf16_mixed));
  CHECK(gathered(bf16_mixed) > 0);
}

namespace {

/// Layers that are computed again, each with its own parameters, so that conversions live shortly.
TrainingStep recomputed_stack(std::int64_t rows) {
  std::vector<nn::Sequential> blocks;
  for (int i = 0; i < 6; ++i)
    blocks.push_back(nn::Sequential{nn::Dense(96), nn::ReLU(), nn::Dense(96)});
  return training_step({{"x", {f32, {rows, 96}}}},
                       [=](const Batch& b) {
                         Value x = b["x"];
                         for (std::size_t i = 0; i < blocks.size(); ++i) {
                           const nn::Scope in(*x.builder, "blocks", i);
                           x = nn::remat(blocks[i])(x);
                         }
                         return mean(square(nn::at_least_f32(x)));
                       },
                       optim::Adam{}, {.precision = bf16_mixed});
}

bool has_copies(const CompiledStep& planned) {
  const std::vector<Input>& inputs = planned.graph.inputs;
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const Input& input) { return input.name.ends_with(".bf16"); });
}

}  // namespace

TEST_CASE(
    "where memory is short, micro-batches convert parameters: what fitted without copies fits") {
  const Cluster cluster = Cluster::local(2);
  for (const std::int64_t rows : {16, 4096}) {  // state, or what is computed, takes most
    const TrainingStep step = recomputed_stack(rows);
    TrainingStep converting = step;
    converting.keeps_copies = false;
    const CompiledStep kept = plan_only(step, DataParallel{}, cluster);
    const std::int64_t with = kept.memory_bytes;
    const std::int64_t without = plan_only(converting, DataParallel{}, cluster).memory_bytes;
    CHECK(has_copies(kept));
    REQUIRE(without < with);
    for (const std::int64_t budget : {without, (without + with) / 2, with - 1}) {
      const CompiledStep planned =
          plan_only(step, DataParallel{.memory_budget_bytes = budget}, cluster);
      CHECK(planned.memory_bytes <= budget);
      CHECK_FALSE(has_copies(planned));
    }
    CHECK_THROWS_AS(plan_only(step, DataParallel{.memory_budget_bytes = without / 2}, cluster),
                    Error);
  }
}

TEST_CASE("a plan without copies is loaded as it was made, and computes the same bits") {
  const TrainingStep step = recomputed_stack(16);
  TrainingStep converting = step;
  converting.keeps_copies = false;
  const Cluster cluster = Cluster::local(2);
  const std::int64_t budget = plan_only(converting, DataParallel{}, cluster).memory_bytes;
  const DataParallel tight{.memory_budget_bytes = budget};
  const TemporaryFolder folder("parameter_copies_plan");
  std::filesystem::create_directory(folder.path());
  const std::string path = folder.path() + "/plan.json";
  parallelize(step, tight, cluster).save_plan(path);
  const Executable loaded = load_plan(step, DataParallel{}, cluster, path);
  CHECK_FALSE(has_copies(loaded.planned()));
  const Executable kept = parallelize(step, DataParallel{}, cluster);
  TrainState a = loaded.init(1), b = kept.init(1);
  std::vector<float> x(16 * 96);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  for (int i = 0; i < 3; ++i)
    CHECK(loaded.run(a, {{"x", Array(x, {16, 96})}}).loss() ==
          kept.run(b, {{"x", Array(x, {16, 96})}}).loss());
}

}  // namespace parameter_copies_test
