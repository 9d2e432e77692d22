// Rematerialisation: equal numbers, less memory, more operations; the planner's choice of layers.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "src/ir/op_def.h"
#include "support/error_text.h"
#include "support/temporary_file.h"

namespace remat_test {

using namespace alpa;
using alpa::testing::error_of;

namespace {

constexpr std::int64_t kRows = 48, kWidth = 12;

/// x + down(gelu(up(norm(x)))).
struct Block {
  nn::LayerNorm norm;
  nn::Dense up{4 * kWidth}, down{kWidth};
  nn::Dropout dropout{0};

  Value operator()(Value x) const { return x + dropout(down(gelu(up(norm(x))))); }
};

struct Stack {
  std::vector<Block> blocks;
  bool boundaries = false, marks = true;

  explicit Stack(int layers, double dropout = 0) : blocks(layers) {
    for (Block& block : blocks) block.dropout = nn::Dropout(dropout);
  }
  LossAndMetrics operator()(const Batch& b) const {
    Value x = b["x"];
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (boundaries && i > 0) x = mark_pipeline_boundary(x);
      x = marks ? nn::remat(blocks[i])(x) : blocks[i](x);
    }
    return mean(square(x - 1));
  }
};

using Model = std::function<LossAndMetrics(const Batch&)>;

TrainingStep step_of(const Model& model, Remat remat) {
  return training_step({{"x", {f64, {kRows, kWidth}}}}, model, optim::Sgd{.learning_rate = 0.1},
                       {.remat = remat});
}

std::map<std::string, Array> batch(int n, std::int64_t rows = kRows) {
  std::vector<double> x(rows * kWidth);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.37 * static_cast<double>(i) + n);
  return {{"x", Array(x, {rows, kWidth})}};
}

struct Outcome {
  std::vector<double> losses, numbers;  ///< all state, one after another
  std::int64_t bytes = 0;
  double flops = 0;
};

/// Two steps. The peak that was planned is the one that is measured.
Outcome run(const Executable& train) {
  TrainState state = train.init(1);
  Outcome outcome;
  for (int n = 0; n < 2; ++n) outcome.losses.push_back(train.run(state, batch(n)).loss());
  for (const std::string& name : state.names())
    for (double number : state[name].to_host().to_doubles()) outcome.numbers.push_back(number);
  outcome.bytes = train.memory_bytes();
  CHECK(train.measured_bytes(state) == outcome.bytes);
  outcome.flops = flops_per_step(train.graph());
  return outcome;
}

Outcome run(const TrainingStep& step, const Method& method, int devices) {
  return run(parallelize(step, method, Cluster::local(devices)));
}

double largest_difference(const Outcome& a, const Outcome& b) {
  REQUIRE(a.numbers.size() == b.numbers.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    worst = std::max(worst, std::abs(a.losses[i] - b.losses.at(i)));
  for (std::size_t i = 0; i < a.numbers.size(); ++i)
    worst = std::max(worst, std::abs(a.numbers[i] - b.numbers[i]));
  return worst;
}

/// The same bits on one device with the marks and without.
void check_same_bits(const Model& model) {
  const Outcome with = run(step_of(model, Remat::marked), Serial{}, 1),
                without = run(step_of(model, Remat::none), Serial{}, 1);
  CHECK(with.losses == without.losses);
  CHECK(with.numbers == without.numbers);
  CHECK(with.flops > without.flops);
}

std::int64_t bytes_of(const Model& model, Remat remat, const Method& method = Serial{},
                      int devices = 1) {
  return plan_only(step_of(model, remat), method, Cluster::local(devices)).memory_bytes;
}

}  // namespace

TEST_CASE(
    "rematerialised blocks give the same bits in less memory with the FLOPs of their layers") {
  const Outcome with = run(step_of(Stack(6), Remat::marked), Serial{}, 1),
                without = run(step_of(Stack(6), Remat::none), Serial{}, 1);
  CHECK(with.losses == without.losses);
  CHECK(with.numbers == without.numbers);
  // Without: 48 rows of 4 · 12 features twice per block, before and after gelu. With: of one block.
  const std::int64_t wide = kRows * 4 * kWidth * 8;
  CHECK(without.bytes - with.bytes >= 5 * 2 * wide - wide);
  // Of a block, norm, up and gelu are needed again, but not down.
  double products = 0;
  for (const Node& node : step_of(Stack(6), Remat::marked).trace(1).nodes)
    if (node.again && node.op->name == "einsum") products += 1;
  CHECK(products == 6);
  CHECK(with.flops - without.flops > 6 * 2.0 * kRows * kWidth * 4 * kWidth);
}

TEST_CASE("rematerialised blocks give one device's numbers on 2, 3 and 4 devices in less memory") {
  const Outcome reference = run(step_of(Stack(3), Remat::none), Serial{}, 1);
  for (int devices : {2, 3, 4}) {
    const ShardParallel method{.num_micro_batches = devices == 4 ? 2 : 1};
    const Outcome with = run(step_of(Stack(3), Remat::marked), method, devices);
    CHECK(largest_difference(with, reference) < 1e-12);
    CHECK(with.bytes < bytes_of(Stack(3), Remat::none, method, devices));
  }
  CHECK(largest_difference(run(step_of(Stack(3), Remat::marked), Zero3Parallel{}, 2), reference) <
        1e-12);
}

TEST_CASE("stages of rematerialised layers keep less for every micro-batch in flight") {
  const Outcome reference = run(step_of(Stack(4), Remat::none), Serial{}, 1);
  Stack marked(4);
  marked.boundaries = true;
  const auto method = [](auto layers) {
    return PipeshardParallel{.num_micro_batches = 4, .layers = layers, .stages = UniformStages{2}};
  };
  for (const PipeshardParallel& stages : {method(ManualLayers{}), method(AutoLayers{3})}) {
    const Executable train = parallelize(step_of(marked, Remat::marked), stages, Cluster::local(2));
    CHECK(largest_difference(run(train), reference) < 1e-12);
    const CompiledStep without = plan_only(step_of(marked, Remat::none), stages, Cluster::local(2));
    const StageMemory &memory = train.planned().plan.stages[0].memory,
                      &other = without.plan.stages[0].memory;
    std::map<int, int> layer_of;  // no rematerialised layer is cut
    for (const Node& node : train.graph().nodes)
      if (node.remat >= 0)
        CHECK(layer_of.emplace(node.remat, node.layer).first->second == node.layer);
    CHECK(layer_of.size() == 4);
    CHECK(memory.in_flight == 2);
    CHECK(2 * memory.activations < other.activations);
  }
}

TEST_CASE("a boundary inside a rematerialised layer cuts it in two") {
  const Block first, second;
  const Model model = [=](const Batch& b) {
    const auto both = [&](Value x) { return second(mark_pipeline_boundary(first(x))); };
    return LossAndMetrics(mean(square(nn::remat(both)(b["x"]))));
  };
  const PipeshardParallel method{.num_micro_batches = 2, .stages = UniformStages{2}};
  const Outcome reference = run(step_of(model, Remat::none), Serial{}, 1);
  const Executable train = parallelize(step_of(model, Remat::marked), method, Cluster::local(2));
  CHECK(largest_difference(run(train), reference) < 1e-12);
  const testing::TemporaryFile file("remat-pipeline.json", "");
  train.save_plan(file.path());
  CHECK(largest_difference(
            run(load_plan(step_of(model, Remat::marked), method, Cluster::local(2), file.path())),
            reference) < 1e-12);
}

TEST_CASE("dropout inside draws the same numbers again, running statistics move once") {
  check_same_bits(Stack(2, 0.4));
  const nn::BatchNorm norm;
  const nn::Dense dense(7);
  check_same_bits([=](const Batch& b) {
    const auto layer = [&](Value x) { return relu(norm(dense(x))); };
    return mean(square(nn::remat(layer)(b["x"]) - 1));
  });
}

TEST_CASE("rematerialised layers may be nested, hold the loss, and share weights") {
  const Block inner;
  const nn::Dense dense(kWidth);
  const Model model = [=](const Batch& b) {
    const auto outer = [&](Value x) { return tanh(dense(nn::remat(inner)(tanh(dense(x))))); };
    const auto last = [&](Value x) { return mean(square(nn::remat(outer)(x) - b["x"])); };
    return LossAndMetrics(nn::remat(last)(outer(b["x"])));
  };
  check_same_bits(model);
  const Graph graph = step_of(model, Remat::marked).trace(1);
  CHECK(remat_layers(graph) == std::vector<int>{0, 1});
}

TEST_CASE("rematerialised layers take and give several tensors") {
  const nn::Dense a(kWidth), b(kWidth);
  struct Pair {
    Value sum, product;
  };
  check_same_bits([=](const Batch& batch) {
    const Value x = batch["x"];
    const Pair pair = nn::remat([&](Value u, Value v, double scale) {
      return Pair{tanh(a(u)) + v * scale, tanh(a(u)) * b(v)};
    })(x, x * 2, 0.5);
    const Values both = nn::remat([&](const Values& xs) {
      return Values{tanh(xs[0] * xs[1]), exp(-square(xs[1]))};
    })(Values{pair.sum, pair.product});
    return mean(square(both[0] + both[1]));
  });
}

TEST_CASE("the planner computes layers again only where the budget asks for it, and few") {
  const Stack stack(6);
  const std::int64_t none = bytes_of(stack, Remat::none), all = bytes_of(stack, Remat::all);
  REQUIRE(all < none);
  std::size_t before = 0;
  for (const std::int64_t budget : {none, (none + all) / 2, all}) {
    const Serial method{.memory_budget_bytes = budget};
    const Executable train =
        parallelize(step_of(stack, Remat::automatic), method, Cluster::local(1));
    CHECK(train.memory_bytes() <= budget);
    const std::vector<RecomputedLayer> layers = train.planned().recomputed();
    CHECK(recomputed_layers(train.graph()).size() == layers.size());
    CHECK((layers.empty()) == (budget == none));
    CHECK(layers.size() >= before);
    before = layers.size();
    for (const RecomputedLayer& layer : layers) {
      CHECK(layer.seconds > 0);
      CHECK(layer.bytes >= 2 * kRows * 4 * kWidth * 8);
    }
    if (budget == (none + all) / 2) {
      // Equal layers are chosen from the first one on, as few as suffice.
      CHECK(layers.front().number == 0);
      CHECK(layers.front().nodes == "layer_norm0 to gelu");
      std::vector<int> fewer = recomputed_layers(train.graph());
      fewer.pop_back();
      CHECK(plan_only(with_remat(step_of(stack, Remat::automatic), fewer), Serial{},
                      Cluster::local(1))
                .memory_bytes > budget);
    }
  }
}

TEST_CASE("stages and micro-batches are chosen together with what is computed again") {
  Stack stack(4);
  stack.boundaries = true;
  PipeshardParallel method{.num_micro_batches = 1, .stages = AutoStages{}};
  const std::int64_t none = bytes_of(stack, Remat::none, method, 2),
                     all = bytes_of(stack, Remat::all, method, 2);
  REQUIRE(all < none);
  for (const std::optional<int> number : {std::optional(1), kAutoMicroBatches})
    for (const std::int64_t budget : {none, all}) {
      CAPTURE(number.value_or(0));
      CAPTURE(budget);
      method.num_micro_batches = number;
      method.memory_budget_bytes = budget;
      const auto seconds = [&](Remat remat) {
        return plan_only(step_of(stack, remat), method, Cluster::local(2))
            .plan.cost.objective_seconds;
      };
      const Executable train =
          parallelize(step_of(stack, Remat::automatic), method, Cluster::local(2));
      CHECK(train.memory_bytes() <= budget);
      if (budget == none) CHECK(train.planned().recomputed().empty());
      CHECK(train.planned().plan.cost.objective_seconds <= 1.005 * seconds(Remat::all));
      run(train);
    }
}

TEST_CASE("stages of a large step that have room keep what they compute") {
  const Stack stack(90);
  PipeshardParallel method{.num_micro_batches = 12, .layers = AutoLayers{}, .stages = AutoStages{}};
  constexpr int kDevices = 4;
  const std::int64_t none = bytes_of(stack, Remat::none, method, kDevices),
                     all = bytes_of(stack, Remat::all, method, kDevices);
  method.memory_budget_bytes = (none + all) / 2;
  const auto planned = [&](Remat remat) {
    return plan_only(step_of(stack, remat), method, Cluster::local(kDevices));
  };
  const Executable train =
      parallelize(step_of(stack, Remat::automatic), method, Cluster::local(kDevices));
  CHECK(train.memory_bytes() <= method.memory_budget_bytes);
  const auto recomputes = [](const StagePlan& stage) {
    return !recomputed_layers(stage.graph).empty();
  };
  const std::vector<StagePlan>& stages = train.planned().plan.stages;
  CHECK(recomputes(stages.front()));  // it keeps the most micro-batches
  CHECK(!recomputes(stages.back()));
  CHECK(train.planned().plan.cost.objective_seconds <
        planned(Remat::all).plan.cost.objective_seconds);
  CHECK(largest_difference(run(train), run(step_of(stack, Remat::none), Serial{}, 1)) < 1e-9);
}

TEST_CASE("what is asked to be computed again is, with any number of micro-batches") {
  Stack stack(4);
  stack.boundaries = true;
  for (const std::optional<int> number : {std::optional(2), kAutoMicroBatches}) {
    const PipeshardParallel method{.num_micro_batches = number, .stages = AutoStages{}};
    for (const auto& [remat, layers] : {std::pair{Remat::all, 4}, {Remat::none, 0}})
      CHECK(std::ssize(plan_only(step_of(stack, remat), method, Cluster::local(2)).recomputed()) ==
            layers);
  }
}

TEST_CASE("a plan says what it computes again, and is loaded with it") {
  Stack stack(4);
  stack.marks = false;
  stack.boundaries = true;  // layers without nn::remat
  const std::int64_t none = bytes_of(stack, Remat::none), all = bytes_of(stack, Remat::all);
  const ShardParallel method{.memory_budget_bytes = (none + all) / 2};
  const TrainingStep step = step_of(stack, Remat::automatic);
  const Executable train = parallelize(step, method, Cluster::local(1));
  CHECK(train.explain().find("\nRecomputed     ") != std::string::npos);
  CHECK(to_json(train.planned()).find("\"recomputed\": [") != std::string::npos);
  const testing::TemporaryFile file("remat-plan.json", "");
  train.save_plan(file.path());
  const Executable again = load_plan(step, method, Cluster::local(1), file.path());
  CHECK(again.graph() == train.graph());
  CHECK(again.memory_bytes() == train.memory_bytes());
  CHECK(again.planned().recomputed().size() == train.planned().recomputed().size());
  // A batch of fewer rows is computed along the same plan.
  TrainState state = again.init(1);
  CHECK(std::isfinite(again.run(state, batch(0, kRows / 2)).loss()));
}

TEST_CASE("mistakes with rematerialisation are told") {
  const nn::Dense dense(kWidth);
  const Model plain = [=](const Batch& b) { return mean(square(dense(b["x"]))); };
  for (Remat remat : {Remat::all, Remat::automatic})
    CHECK(error_of([&] { step_of(plain, remat).trace(1); }) ==
          "StepOptions::remat: the model has no layers that could be computed again; wrap some in "
          "nn::remat, or mark them with LayerScope or mark_pipeline_boundary (AutoLayers ignore "
          "these)");
  CHECK(error_of([&] { nn::remat([](const Values& xs) { return xs.at(0); })(Values{}); }) ==
        "nn::remat: the layer is called without a tensor; give at least one");
  const Serial tiny{.memory_budget_bytes = 30'000};
  const std::string error =
      error_of([&] { plan_only(step_of(Stack(2), Remat::automatic), tiny, Cluster::local(1)); });
  CAPTURE(error);
  CHECK(error.starts_with("with all 2 layers computed again in the backward pass: "));
  // Only a budget that is not kept is a reason to compute layers again; mistakes are told as ever.
  const ShardParallel mistaken{.mesh_shape = {3}};
  const auto error_with = [&](Remat remat) {
    return error_of([&] { plan_only(step_of(Stack(2), remat), mistaken, Cluster::local(2)); });
  };
  CHECK(!error_with(Remat::none).empty());
  CHECK(error_with(Remat::automatic) == error_with(Remat::none));
}

}  // namespace remat_test
