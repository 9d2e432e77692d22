// Split parameters are gathered once per step, kept in one copy for all micro-batches, where memory
// allows it; otherwise in every micro-batch, ahead of the layer that reads them.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "src/api/parallelize.h"
#include "src/ir/op_def.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/runtime/executor.h"
#include "src/search/stages/cut_stages.h"
#include "src/search/stages/plan_stage.h"

namespace gathered_state_test {

using namespace alpa;

namespace {

constexpr std::int64_t kRows = 64, kWidth = 96;
constexpr int kLayers = 8, kMicroBatches = 8;
/// Kernel and bias.
constexpr std::int64_t kLayerBytes = 4 * (kWidth * kWidth + kWidth);

/// Eight dense layers, with a boundary behind every second one.
TrainingStep make_step(std::int64_t rows = kRows) {
  const TensorType type{f32, {rows, kWidth}};
  std::vector<nn::Dense> layers;
  for (int i = 0; i < kLayers; ++i) layers.emplace_back(kWidth);
  return training_step(
      {{"x", type}, {"y", type}},
      [layers](const Batch& batch) {
        Value x = batch["x"];
        for (int i = 0; i < kLayers; ++i) {
          if (i > 0 && i % 2 == 0) x = mark_pipeline_boundary(x);
          x = tanh(layers[i](x));
        }
        return nn::mean_squared_error(x, batch["y"]);
      },
      optim::Adam{.learning_rate = 1e-2});
}

BatchData make_batch() {
  BatchData batch;
  for (const char* name : {"x", "y"}) {
    std::vector<float> values(kRows * kWidth);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>((i * 37 + (name[0] == 'x' ? 1 : 5)) % 17) / 17;
    batch.emplace(name, Array(values, {kRows, kWidth}));
  }
  return batch;
}

/// Losses of three steps and all parameters.
std::vector<double> numbers_of(const Executable& step) {
  TrainState state = step.init(3);
  std::vector<double> numbers;
  for (int i = 0; i < 3; ++i) numbers.push_back(step.run(state, make_batch()).loss());
  for (const DistributedArray& parameter : state.parameters())
    for (const double x : parameter.to_host().to_doubles()) numbers.push_back(x);
  CHECK(step.measured_bytes(state) == step.memory_bytes());
  return numbers;
}

/// Bytes that a device gets of parameters in a step that gathers all of them so often.
double gathered(int times, int devices) {
  return static_cast<double>(times * kLayers * kLayerBytes * (devices - 1)) / devices;
}

}  // namespace

TEST_CASE("ZeRO-3 gathers parameters once per step, or in every micro-batch under a budget") {
  for (const Overlap overlap : {Overlap::never, Overlap::always}) {
    Zero3Parallel method{.num_micro_batches = kMicroBatches, .shard_optimizer_state = true};
    method.executor.overlap = overlap;
    method.executor.bucket_bytes = 0;  // merged collectives would take memory
    const Executable once = parallelize(make_step(), method, Cluster::local(4));
    CHECK(once.traffic().at("all_gather").bytes == gathered(1, 4));
    // Without the copies of all layers but two.
    method.memory_budget_bytes = once.memory_bytes() - (kLayers - 2) * kLayerBytes;
    const Executable each = parallelize(make_step(), method, Cluster::local(4));
    CHECK(each.memory_bytes() <= *method.memory_budget_bytes);
    CHECK(each.traffic().at("all_gather").bytes >= gathered(kMicroBatches, 4));
    CHECK(numbers_of(once) == numbers_of(each));
  }
}

TEST_CASE("a program of one micro-batch has no copies of state that are made before it") {
  const Executable step = parallelize(make_step(), Zero3Parallel{}, Cluster::local(2));
  for (const PlannedReshard& reshard : step.plan().sharding().reshards) CHECK(!reshard.once);
}

TEST_CASE("plan files say which copies are made once, and load with them") {
  const Zero3Parallel method{.num_micro_batches = 4};
  const CompiledStep planned = plan_only(make_step(), method, Cluster::local(2));
  const ShardingPlan& plan = planned.plan.sharding();
  CHECK(std::ranges::count_if(plan.reshards, &PlannedReshard::once) == 2 * kLayers);
  const std::string text = to_json(plan, planned.graph);
  CHECK(to_json(plan_from_json(text, planned.graph, "file"), planned.graph) == text);
  std::string wrong = text;  // a copy of an activation cannot be made before the micro-batches
  const std::size_t at = wrong.find("\"value\": ", wrong.find("\"reshards\""));
  REQUIRE(at != wrong.npos);
  const int activation = planned.graph.producer(planned.graph.metrics.at(0).value).results[0];
  wrong.replace(at, wrong.find(',', at) - at, "\"value\": " + std::to_string(activation));
  CHECK_THROWS_AS(plan_from_json(wrong, planned.graph, "file"), Error);
}

namespace {

/// The step in four stages of two devices, each planned as ZeRO-3.
struct Staged {
  Cluster cluster = Cluster::local(8);
  ExecutorOptions options = {.overlap = Overlap::never};
  CompiledStep planned = plan_only(
      make_step(),
      PipeshardParallel{.num_micro_batches = kMicroBatches, .stages = UniformStages{4}}, cluster);

  Staged() {
    const cost::CostModel model = cost::CostModel::of(cluster);
    std::vector<StagePlan>& stages = planned.plan.stages;
    const std::vector<BoundaryBatchDims> dims = cut_into_stages(planned.graph, stages);
    intra_op::PlanningCache cache;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      intra_op::AutoShardOptions zero3 = intra_op::zero3_options();
      zero3.part.boundary_batch_dims = dims[s];
      stages[s].plan =
          plan_stage(stages[s].graph, {stages[s].plan.mesh},
                     {cluster.device.memory_bytes, kMicroBatches}, {model, zero3, cache});
    }
  }

  CompiledStep lowered() const {
    const PassLog log("");
    return run_passes(planned.graph, planned.plan,
                      {cluster, options, cluster.device.memory_bytes, log});
  }
};

/// The plan as it would be without copies that are made once: kept by every micro-batch.
void keep_per_micro_batch(Plan& plan) {
  for (StagePlan& stage : plan.stages)
    for (PlannedReshard& reshard : stage.plan.reshards) reshard.once = false;
}

}  // namespace

TEST_CASE(
    "stages count copies of gathered parameters, one or one per micro-batch, as lowering does") {
  Staged once, each;
  keep_per_micro_batch(each.planned.plan);
  const CompiledStep of_once = once.lowered(), of_each = each.lowered();
  CHECK(of_once.traffic().at("all_gather").bytes == gathered(1, 2) / 4);
  CHECK(of_each.traffic().at("all_gather").bytes == gathered(kMicroBatches, 2) / 4);
  for (int s = 0; s < 4; ++s) {
    CAPTURE(s);
    const StagePlan &one = of_once.plan.stages[s], &many = of_each.plan.stages[s];
    const int in_flight = 4 - s;
    const auto counted = [&](const StagePlan& stage) {
      return intra_op::counted_bytes(stage.plan, stage.graph).with(in_flight);
    };
    MESSAGE("stage ", s, ", ", in_flight, " in flight: once ", counted(one), " bytes counted, ",
            one.memory.total(), " lowered; per micro-batch ", counted(many), " counted, ",
            many.memory.total(), " lowered");
    for (const StagePlan* stage : {&one, &many})
      CHECK(static_cast<double>(counted(*stage)) ==
            doctest::Approx(static_cast<double>(stage->memory.total())).epsilon(0.03));
    // Kernels are read backward, too, but that of the first layer; biases are not.
    const std::int64_t kept = (s == 0 ? 1 : 2) * 4 * kWidth * kWidth;
    CHECK(many.memory.total() - one.memory.total() >= (in_flight - 1) * kept - 2 * kLayerBytes);
  }
}

TEST_CASE("stages with micro-batches in flight count what their passes make, as lowering does") {
  constexpr std::int64_t kManyRows = 16384;  // activations outweigh state
  const CompiledStep planned =
      plan_only(make_step(kManyRows),
                PipeshardParallel{.num_micro_batches = kMicroBatches, .stages = UniformStages{4}},
                Cluster::local(4));
  for (int s = 0; s < 4; ++s) {
    const StagePlan& stage = planned.plan.stages[s];
    const std::int64_t counted = intra_op::counted_bytes(stage.plan, stage.graph).with(4 - s);
    CAPTURE(s);
    MESSAGE(counted, " bytes counted, ", stage.memory.total(), " lowered");
    CHECK(static_cast<double>(counted) ==
          doctest::Approx(static_cast<double>(stage.memory.total())).epsilon(0.001));
  }
}

TEST_CASE("gathers of one micro-batch run beside the layer before the one that reads them") {
  Zero3Parallel method;
  method.executor.overlap = Overlap::always;
  method.executor.bucket_bytes = 1;  // none is merged
  const CompiledStep planned = plan_only(make_step(), method, Cluster::local(2));
  const lower::DeviceProgram& device = planned.lowered->firsts.front();
  std::map<int, int> products;  // between start and wait, by the start's position
  int most_under_way = 0, started = 0;
  std::vector<int> under_way;
  for (const lower::InstructionList& list : device.lists)
    for (int i = 0; i < static_cast<int>(list.instructions.size()); ++i) {
      const lower::Instruction& instruction = list.instructions[i];
      const Node& node = planned.program->graph.nodes[instruction.node];
      const bool gather = node.op->reshard == CollectiveKind::all_gather;
      if (gather && instruction.kind == lower::Instruction::Kind::start)
        under_way.push_back(i), ++started;
      if (instruction.kind == lower::Instruction::Kind::wait)
        std::erase(under_way, instruction.awaits);
      if (node.op->name == std::string_view("einsum"))
        for (int start : under_way) ++products[start];
      most_under_way = std::max(most_under_way, static_cast<int>(under_way.size()));
    }
  CHECK(started >= 2 * (kLayers - 1));
  CHECK(most_under_way <= 4);  // kernel and bias of two layers
  CHECK(std::ranges::count_if(products, [](const auto& p) { return p.second > 0; }) >=
        2 * (kLayers - 1) - 2);
}

TEST_CASE("within a tight budget, reductions are awaited before what they read adds to the peak") {
  Zero2Parallel method;
  method.executor.bucket_bytes = 1;  // none is merged
  const auto planned = [&] { return plan_only(make_step(), method, Cluster::local(2)); };
  const auto starts = [](const CompiledStep& step) {
    std::ptrdiff_t count = 0;
    for (const lower::InstructionList& list : step.lowered->firsts.front().lists)
      count += std::ranges::count(list.instructions, lower::Instruction::Kind::start,
                                  &lower::Instruction::kind);
    return count;
  };
  method.executor.overlap = Overlap::never;
  const std::int64_t without_overlap = planned().memory_bytes;
  method.executor.overlap = Overlap::always;
  const CompiledStep free = planned();
  CHECK(free.memory_bytes > without_overlap);
  method.memory_budget_bytes = free.memory_bytes - 1;
  const CompiledStep tight = planned();
  MESSAGE(without_overlap, " bytes without overlap, ", free.memory_bytes, " with, ",
          tight.memory_bytes, " within the budget");
  CHECK(tight.memory_bytes < free.memory_bytes);
  CHECK(starts(tight) > 0);
  CHECK(tight.plan.sharding().specs == free.plan.sharding().specs);
}

}  // namespace gathered_state_test
