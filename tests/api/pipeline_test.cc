// Pipelines as a user writes them: stages compute what one device computes.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "support/error_text.h"
#include "support/gpt_stack.h"
#include "support/temporary_file.h"

namespace pipeline_test {

using namespace alpa;
using alpa::testing::error_of;

namespace {

constexpr std::int64_t kRows = 24, kWidth = 20;

/// Four layers of different widths, with a boundary after each but the last.
struct Mlp {
  std::vector<nn::Dense> dense = {nn::Dense(28), nn::Dense(16), nn::Dense(kWidth),
                                  nn::Dense(kWidth)};
  bool residual = false, tied = false;

  LossAndMetrics operator()(const Batch& b) const {
    Value h = b["x"];
    for (std::size_t l = 0; l < dense.size(); ++l) {
      const Value next = tanh(dense[l](h));
      h = residual && next.shape() == h.shape() ? h + next : next;
      if (l + 1 < dense.size()) h = mark_pipeline_boundary(h);
    }
    if (residual) h = h + b["x"];
    if (tied) h = matmul(h, dense[0].kernel(b.builder(), kWidth));
    const Value error = mean(square(h)) + mean(square(h - 1));
    return {error, {{"largest", mean(abs(h))}}};
  }
};

TrainingStep step_of(const Mlp& model, StepOptions options = {}) {
  return training_step({{"x", {f32, {kRows, kWidth}}}}, model, optim::Adam{.learning_rate = 0.01},
                       std::move(options));
}

std::map<std::string, Array> batch(int n) {
  std::vector<float> x(kRows * kWidth);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::sin(0.37F * static_cast<float>(i) + static_cast<float>(n));
  return {{"x", Array(x, {kRows, kWidth})}};
}

struct Outcome {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> parameters;
};

/// Three steps. The peak that was planned is the one that is measured.
Outcome run(const TrainingStep& step, const Method& method, int devices) {
  const Executable train = parallelize(step, method, Cluster::local(devices));
  TrainState state = train.init(1);
  Outcome outcome;
  for (int n = 0; n < 3; ++n) {
    const StepResult result = train.run(state, batch(n));
    outcome.losses.push_back(result.loss());
    outcome.losses.push_back(result.metrics["largest"]);
  }
  CHECK(train.measured_bytes(state) == train.memory_bytes());
  for (const DistributedArray& p : state.parameters())
    outcome.parameters[p.name()] = p.to_host().to_doubles();
  return outcome;
}

/// The largest difference of losses, and of a parameter by its largest element.
double difference(const Outcome& a, const Outcome& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    worst = std::max(worst, std::abs(a.losses[i] - b.losses.at(i)));
  for (const auto& [name, values] : a.parameters) {
    double most = 0, apart = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      most = std::max(most, std::abs(values[i]));
      apart = std::max(apart, std::abs(values[i] - b.parameters.at(name)[i]));
    }
    worst = std::max(worst, apart / most);
  }
  return worst;
}

}  // namespace

TEST_CASE("stages of a marked model compute what one device does, in every order") {
  struct Case {
    const char* name;
    TrainingStep step;
  };
  const Case cases[] = {
      {"plain", step_of({})},
      {"residual, clipped", step_of({.residual = true}, {.clip_global_norm = 0.1})},
      {"tied", step_of({.tied = true}, {.clip_global_norm = 0.1})}};
  struct Layout {
    int devices, micro_batches;
    std::variant<UniformStages, ManualStages, AutoStages> stages;
    ScheduleKind schedule;
  };
  const Layout layouts[] = {
      {2, 4, UniformStages{2}, ScheduleKind::one_f_one_b},
      {4, 1, UniformStages{4}, ScheduleKind::gpipe},
      {8, 8, UniformStages{2}, ScheduleKind::one_f_one_b_overlap},
      {5, 2, ManualStages{{{0}, {1, 2}, {3}}, {1, 3, 1}}, ScheduleKind::one_f_one_b},
      {6, 4, ManualStages{{{0, 1}, {2, 3}}, {2, 4}, {{2}, {2, 2}}}, ScheduleKind::gpipe},
      {3, 4, UniformStages{3}, ScheduleKind::zero_bubble},
      {7, 2, UniformStages{3}, ScheduleKind::one_f_one_b},
      {4, 4, UniformStages{4, 2}, ScheduleKind::interleaved_one_f_one_b},
      {4, 4, AutoStages{}, ScheduleKind::one_f_one_b}};
  for (const Case& c : cases) {
    std::map<int, Outcome> serial;  // by micro-batches
    for (const Layout& layout : layouts) {
      CAPTURE(c.name);
      CAPTURE(layout.devices);
      CAPTURE(name_of(layout.schedule));
      if (!serial.contains(layout.micro_batches))
        serial[layout.micro_batches] =
            run(c.step, Serial{.num_micro_batches = layout.micro_batches}, 1);
      const Outcome stages = run(c.step,
                                 PipeshardParallel{.num_micro_batches = layout.micro_batches,
                                                   .stages = layout.stages,
                                                   .schedule = layout.schedule},
                                 layout.devices);
      CHECK(difference(serial[layout.micro_batches], stages) < 1e-5);
    }
  }
}

TEST_CASE("what stands in no layer, such as a head with labels, is on the stages that need it") {
  const alpa::testing::GptStack model{
      .layers = 2, .batch = 8, .sequence = 5, .hidden = 12, .heads = 3, .vocabulary = 11};
  const TrainingStep step =
      alpa::testing::gpt_step(model, optim::Sgd{.learning_rate = 0.1, .momentum = 0.9});
  std::vector<int> tokens(8 * 5);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int>(i * i % 11);
  const Array ids(tokens, {8, 5});
  const auto loss = [&](const Method& method, int devices) {
    const Executable train = parallelize(step, method, Cluster::local(devices));
    TrainState state = train.init(1);
    for (int n = 0; n < 2; ++n) train.run(state, {{"x", ids}, {"y", ids}});
    return train.run(state, {{"x", ids}, {"y", ids}}).loss();
  };
  CHECK(loss(PipeshardParallel{.num_micro_batches = 4}, 2) ==
        doctest::Approx(loss(Serial{}, 1)).epsilon(1e-5));
}

TEST_CASE("layers are found without marks, and evaluation follows the stages") {
  const Mlp model;
  const TrainingStep step = step_of(model);
  const auto losses = [&](const Method& method, int devices) {
    auto [train, evaluate] =
        parallelize(step, evaluation_step({{"x", {f32, {kRows, kWidth}}}}, model), method,
                    Cluster::local(devices));
    TrainState state = train.init(1);
    train.run(state, batch(0));
    return std::pair{train.planned(), evaluate.run(state, batch(1)).loss()};
  };
  const auto [planned, loss] =
      losses(PipeshardParallel{.num_micro_batches = 4, .layers = AutoLayers{2}}, 4);
  REQUIRE(planned.plan.stages.size() == 2);
  for (const StagePlan& stage : planned.plan.stages) CHECK(stage.plan.mesh.num_devices() == 2);
  CHECK(planned.traffic().at("transfer").count > 0);
  CHECK(timeline(planned) ==
        "mesh 2 mb 4 clocks 11\n"
        "  m0: F0 F1 . B0 F2 B1 F3 B2 . B3 A3\n"
        "  m1: . F0 B0 F1 B1 F2 B2 F3 B3 . A3\n"
        "  max in flight [2, 1]\n");
  CHECK(loss == doctest::Approx(losses(Serial{}, 1).second).epsilon(1e-5));
}

TEST_CASE("a plan says what its stages take and send, and how long they wait") {
  const PipeshardParallel method{.num_micro_batches = 4, .stages = UniformStages{2}};
  const CompiledStep planned = plan_only(step_of({}), method, Cluster::local(4));
  std::int64_t most = 0;
  double slowest = 0, sum = 0, updates = 0;
  for (const StagePlan& stage : planned.plan.stages) {
    most = std::max(most, stage.memory.total());
    CHECK(stage.memory.state > 0);
    CHECK(stage.memory.accumulators > 0);
    CHECK(stage.memory.activations > 0);
    CHECK(stage.memory.temporaries > 0);
    const double both = stage.seconds.forward + stage.seconds.backward;
    slowest = std::max(slowest, both);
    sum += both;
    updates += stage.seconds.apply;
    CHECK(stage.seconds.weights > 0);
    CHECK(stage.seconds.weights <= stage.seconds.backward);
  }
  CHECK(most == planned.memory_bytes);
  CHECK(planned.plan.stages[0].memory.in_flight == 2);
  double sent = 0, transfers = 0;
  for (const StageTransfer& transfer : planned.plan.transfers) {
    CHECK(!transfer.once);
    CHECK(std::abs(transfer.from - transfer.to) == 1);
    sent += transfer.bytes;
    transfers += transfer.seconds;
  }
  CHECK(planned.plan.transfers.size() == 2);
  CHECK(sent >= planned.traffic().at("transfer").bytes / 4);  // of four micro-batches, a device's
  CHECK(planned.plan.stages[1].seconds.weights < planned.plan.stages[1].seconds.backward);
  const double step = planned.plan.cost.objective_seconds;
  CHECK(step >= sum + transfers + 3 * slowest + updates / 2 - 1e-9);
  CHECK(planned.plan.bubble == doctest::Approx(1 - (4 * sum + updates) / (2 * step)));
  CHECK(to_string(planned).find("transfer    stage 0 to 1: ") != std::string::npos);
}

TEST_CASE("the planner chooses the number of micro-batches, for all steps on the state") {
  const TrainingStep step = step_of({});
  const auto seconds = [&](int micro_batches) {
    const PipeshardParallel method{.num_micro_batches = micro_batches};
    return plan_only(step, method, Cluster::local(2)).plan.cost.objective_seconds;
  };
  PipeshardParallel method{.num_micro_batches = kAutoMicroBatches};
  const auto [train, evaluate] =
      parallelize(step, evaluation_step(step.inputs, Mlp{}), method, Cluster::local(2));
  const int chosen = train.graph().num_micro_batches;
  for (int other : {1, 2, 4, 8}) CHECK(seconds(chosen) <= seconds(other));
  CHECK(evaluate.graph().num_micro_batches == chosen);
  const alpa::testing::TemporaryFile file("pipeline_test_chosen.json", "");
  train.save_plan(file.path());
  CHECK(load_plan(step, method, Cluster::local(2), file.path()).graph().num_micro_batches ==
        chosen);

  // This schedule takes numbers that are no multiples of the parts of the devices, too.
  method.stages = UniformStages{4, 2};
  method.schedule = ScheduleKind::interleaved_one_f_one_b;
  const double least = plan_only(step, method, Cluster::local(2)).plan.cost.objective_seconds;
  for (int other : {1, 2, 3, 8}) {
    method.num_micro_batches = other;
    CHECK(least <= plan_only(step, method, Cluster::local(2)).plan.cost.objective_seconds);
  }
  CHECK(error_of([&] {
          plan_only(step, ShardParallel{.num_micro_batches = 0}, Cluster::local(2));
        }) == "parallelize: 0 micro-batches; give at least 1");
}

TEST_CASE("evaluation keeps the stages of training, though it lacks some of its nodes") {
  const nn::Dense first(kWidth), second(kWidth), third(kWidth);
  const nn::BatchNorm norm({.epsilon = 0.1});
  const auto model = [=](const Batch& b) {
    Value h = first(b["x"]);
    if (b.builder().training()) h = h + random_normal(b.builder(), h.type(), 0, 0.1);
    h = mark_pipeline_boundary(tanh(h));
    h = mark_pipeline_boundary(h + norm(second(h)));
    return LossAndMetrics(mean(square(h + tanh(third(h)))));
  };
  const TrainingStep step =
      training_step({{"x", {f32, {kRows, kWidth}}}}, model, optim::Sgd{.learning_rate = 0.1});
  const auto losses = [&](const Method& method, int devices) {
    const auto [train, evaluate] =
        parallelize(step, evaluation_step(step.inputs, model), method, Cluster::local(devices));
    TrainState state = train.init(0);
    std::vector<double> values;
    for (int n = 0; n < 2; ++n)
      for (const Executable* each : {&train, &evaluate})
        values.push_back(each->run(state, batch(n)).loss());
    return values;
  };
  const std::vector<double> expected = losses(Serial{.num_micro_batches = 4}, 1);
  PipeshardParallel method{.num_micro_batches = 4, .stages = UniformStages{3}};
  for (const std::variant<ManualLayers, AutoLayers> layers :
       {std::variant<ManualLayers, AutoLayers>(ManualLayers{}), {AutoLayers{3}}}) {
    method.layers = layers;
    const std::vector<double> found = losses(method, 3);
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-5));
  }
}

TEST_CASE(
    "parallel_3d: stages on meshes of data x tensor devices, the batch split by the first axis") {
  const PipeshardParallel method = parallel_3d(2, 2, 2, 4);
  const CompiledStep planned = plan_only(step_of({}), method, Cluster::local(8));
  REQUIRE(planned.plan.stages.size() == 2);
  for (const StagePlan& stage : planned.plan.stages) {
    CHECK(shape_text(stage.plan.mesh) == "2x2");
    for (const Node& node : stage.graph.nodes)
      if (node.name == "tanh")
        CHECK(stage.plan.specs[node.results[0]].axes[0] ==
              ShardingSpec::replicated().split(0, 0).axes[0]);
  }
  const Outcome serial = run(step_of({}), Serial{.num_micro_batches = 4}, 1);
  for (const auto& [data, tensor, pipeline] :
       {std::array{2, 2, 2}, {1, 2, 2}, {3, 1, 2}, {2, 3, 1}})
    CHECK(difference(serial, run(step_of({}), parallel_3d(data, tensor, pipeline, 4),
                                 data * tensor * pipeline)) < 1e-5);
  CHECK(
      error_of([] { parallel_3d(2, 0, 1); }) ==
      "parallel_3d: degrees 2 of data, 0 of tensor and 1 of pipeline parallelism; give at least 1 "
      "of each");
}

TEST_CASE("axis_uses leave the layouts that they name") {
  PipeshardParallel method = parallel_3d(2, 2, 2, 4);
  method.batch_mesh_axis = {};
  method.axis_uses = {AxisUse::zero3, AxisUse::tensor};
  const CompiledStep planned = plan_only(step_of({}), method, Cluster::local(8));
  bool split_rows = false, split_features = false;
  for (const StagePlan& stage : planned.plan.stages)
    for (const Node& node : stage.graph.nodes) {
      const ShardingSpec& spec = stage.plan.specs[node.results[0]];
      const auto splits = [&](int axis, int dim) {
        return spec.axes[axis] == ShardingSpec::replicated().split(axis, dim).axes[axis];
      };
      if (node.name == "tanh") {
        CHECK(splits(0, 0));
        split_features = split_features || splits(1, 1);
      }
      const Input* input = find_input(stage.graph, node.results[0]);
      if (input && input->kind == InputKind::state && input->of.empty())
        split_rows = split_rows || splits(0, 0) || splits(0, 1);
    }
  CHECK(split_rows);
  CHECK(split_features);
  const Outcome serial = run(step_of({}), Serial{.num_micro_batches = 4}, 1);
  CHECK(difference(serial, run(step_of({}), method, 8)) < 1e-5);
  const Zero2Parallel fixed{.axis_uses = {AxisUse::tensor}};
  CHECK(error_of([&] { plan_only(step_of({}), fixed, Cluster::local(2)); }) ==
        "parallelize: axis_uses is set, but method zero2 says itself how the mesh is used; use "
        "ShardParallel or PipeshardParallel");
}

TEST_CASE("every stage may have options of its own") {
  PipeshardParallel method{.num_micro_batches = 4, .mesh_shape = {2}};
  const auto split_states = [&](const std::vector<StageOptions>& options) {
    method.stages = ManualStages{{{0, 1}, {2, 3}}, {2, 2}, {}, options};
    std::vector<int> split(2, 0);
    const CompiledStep planned = plan_only(step_of({}), method, Cluster::local(4));
    for (int s = 0; s < 2; ++s)
      for (const Input& input : planned.plan.stages[s].graph.inputs)
        if (!input.of.empty() &&
            planned.plan.stages[s].plan.specs[input.value] != ShardingSpec::replicated())
          ++split[s];
    return split;
  };
  const StageOptions data{.batch_mesh_axis = 0},
      zero{.batch_mesh_axis = 0, .shard_optimizer_state = true};
  CHECK(split_states({data, zero}) == std::vector<int>{0, 8});
  CHECK(split_states({zero, data}) == std::vector<int>{8, 0});
  CHECK(error_of([&] { split_states({data}); }) ==
        "ManualStages: options of 1 stages, but there are 2; give one for each, or none");
}

TEST_CASE("a saved plan with stages is loaded without a search, for the same step and devices") {
  const TrainingStep step = step_of({.residual = true});
  const PipeshardParallel method{
      .num_micro_batches = 4, .layers = AutoLayers{3}, .stages = UniformStages{3}};
  const Executable planned = parallelize(step, method, Cluster::local(6));
  const alpa::testing::TemporaryFile file("pipeline_test.json", "");
  planned.save_plan(file.path());
  const auto load = [&](const TrainingStep& of, int micro_batches, int devices) {
    return load_plan(of, ShardParallel{.num_micro_batches = micro_batches}, Cluster::local(devices),
                     file.path());
  };
  const Executable loaded = load(step, 4, 6);
  CHECK(to_json(loaded.planned()) == to_json(planned.planned()));
  CHECK(to_string(loaded.planned()) == to_string(planned.planned()));
  TrainState first = planned.init(1), second = loaded.init(1);
  CHECK(planned.run(first, batch(0)).loss() == loaded.run(second, batch(0)).loss());

  CHECK(error_of([&] { load(step, 4, 8); }) ==
        "plan file " + file.path() +
            ": the plan is for 6 devices (mesh 2 + 2 + 2), but the cluster has 8");
  CHECK(error_of([&] { load(step, 1, 6); }).starts_with("plan " + file.path() + ": layers: found"));
  CHECK(error_of([&] {
          load(step_of({.tied = true}), 4, 6);
        }).starts_with("plan " + file.path() + ": layers: found"));
}

TEST_CASE("stages that do not fit are errors that say how to mend them") {
  const auto error = [](const PipeshardParallel& method, int devices) {
    return error_of([&] { plan_only(step_of({}), method, Cluster::local(devices)); });
  };
  CHECK(error({.stages = UniformStages{5}}, 5) ==
        "uniform stages: 5 stages of 4 layers; give between 1 and 4");
  const auto unmarked = [](const Batch& b) { return mean(square(b["x"] * nn::Dense(1)(b["x"]))); };
  CHECK(
      error_of([&] {
        plan_only(training_step({{"x", {f32, {4, 4}}}}, unmarked, optim::Adam{}),
                  PipeshardParallel{}, Cluster::local(2));
      }) ==
      "method pipeline: the model is a single layer, which cannot be cut into 2 stages; mark where "
      "layers end with mark_pipeline_boundary, or give .layers = AutoLayers{}");
  CHECK(error({.stages = ManualStages{{{0, 1}, {2}}, {1, 1}}}, 2).starts_with("manual stages: "));
  CHECK(error({.stages = UniformStages{2}, .schedule = ScheduleKind::interleaved_one_f_one_b}, 2) ==
        "method pipeline: schedule interleaved_1f1b with 1 stages on each part of the devices; "
        "interleaved_1f1b needs UniformStages with stages_per_part above 1, all others 1");
  CHECK(error({.num_micro_batches = 2, .memory_budget_bytes = 5000}, 2)
            .starts_with("method pipeline: the stages need "));
}

}  // namespace pipeline_test
