#pragma once
/// Predicted and measured seconds of a step under many plans, with and without stages: as the
/// planner prices it, loops as a whole, and with every node priced apart; the median error, and
/// Kendall's tau of the two orders.
#include <alpa/alpa.h>

#include <cmath>
#include <ctime>
#include <optional>

#include "mlp.h"
#include "report.h"
#include "src/base/thread_team.h"
#include "src/base/timing.h"
#include "src/ir/op_def.h"
#include "src/plan/cost/cost_model.h"
#include "src/plan/facts/strategy.h"
#include "tests/support/gpt_stack.h"

namespace alpa::bench {

/// A plan, and what its steps took.
struct MeasuredPlan {
  std::string name;
  Executable executable;
  TrainState state;
  BatchData batch;
  std::vector<double> seconds = {}, processor_seconds = {};  ///< the latter divided by the cores

  double predicted() const { return executable.planned().plan.cost.objective_seconds; }
};

/// A few products with long chains of formulas between them.
inline TrainingStep elementwise_step(std::int64_t rows, std::int64_t width, int layers) {
  const TensorType type{f32, {rows, width}};
  return training_step(
      {{"x", type}, {"y", type}},
      [=](const Batch& batch) {
        Value x = batch["x"];
        Builder& g = *x.builder;
        for (int i = 0; i < layers; ++i) {
          const Value gain = g.parameter(fmt::format("gain{}", i), {f32, {width}},
                                         Initializer::ones()),
                      shift = g.parameter(fmt::format("shift{}", i), {f32, {width}},
                                          Initializer::zeros());
          x = x + tanh(x * gain + shift) * sigmoid(x * 0.5 + 0.1);
        }
        return mean(square(x - batch["y"]));
      },
      optim::Sgd{.learning_rate = 1e-7});
}

/// Seconds of the plan's nodes, each on its own, and of its communication.
inline double seconds_node_by_node(const Executable& step, const cost::CostModel& model) {
  const Graph& graph = step.graph();
  const ShardingPlan& plan = step.plan().sharding();
  double seconds = plan.cost.communication_seconds;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (node.op->work == Work::free || node.operands.empty()) continue;
    std::vector<TensorType> results;
    for (int value : node.results) results.push_back(graph.type(value));
    seconds += runs_per_step(graph, node) *
               operator_seconds(rule_of(graph, node),
                                intra_op::factor_of_axis(plan.strategies[n], plan.mesh),
                                operand_types(graph, node), results, plan.mesh, model);
  }
  return seconds;
}

inline BatchData random_batch(const TrainingStep& step) {
  BatchData batch;
  for (const BatchInput& input : step.inputs)
    batch.emplace(input.name, random_array(input.type.shape));
  return batch;
}

/// The methods that are compared: on one device there is one.
inline std::vector<std::pair<std::string, Method>> compared_methods(int devices) {
  if (devices == 1) return {{"shard", ShardParallel{}}};
  std::vector<std::pair<std::string, Method>> all{
      {"data", DataParallel{}},
      {"zero2", Zero2Parallel{}},
      {"shard", ShardParallel{}},
      {"shard, 4 mb", ShardParallel{.num_micro_batches = 4}}};
  for (const ScheduleKind schedule :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zero_bubble})
    for (int micro_batches : {2, 8})
      all.emplace_back(fmt::format("{} {} mb", name_of(schedule), micro_batches),
                       PipeshardParallel{.num_micro_batches = micro_batches,
                                         .layers = AutoLayers{devices},
                                         .stages = UniformStages{devices},
                                         .schedule = schedule});
  return all;
}

/// (pairs in the same order - pairs in opposite order) / all pairs.
inline double kendall_tau(const std::vector<MeasuredPlan>& plans) {
  double score = 0, pairs = 0;
  for (std::size_t i = 0; i < plans.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const double measured = median(plans[i].seconds) - median(plans[j].seconds),
                   predicted = plans[i].predicted() - plans[j].predicted();
      score += measured * predicted > 0 ? 1 : -1;
      ++pairs;
    }
  return score / pairs;
}

inline std::vector<MeasuredPlan> plans_on(const Cluster& cluster) {
  const std::pair<const char*, TrainingStep> steps[] = {
      {"stack of formulas", elementwise_step(4096, 1024, 6)},
      {"MLP 8 x 512, 2048 rows", mlp_step({512, 2048, 8})},
      {"MLP 4 x 512, 512 rows", mlp_step({512, 512, 4})},
      {"MLP 8 x 1024, 256 rows", mlp_step({1024, 256, 8})},
      {"GPT-like",
       testing::gpt_step({.layers = 2, .batch = 8, .sequence = 128, .hidden = 256, .heads = 4})}};
  std::vector<MeasuredPlan> plans;
  for (const auto& [model, step] : steps)
    for (const auto& [name, method] : compared_methods(cluster.num_devices())) {
      const Executable executable = parallelize(step, method, cluster);
      plans.push_back(
          {fmt::format("{}, {}", model, name), executable, executable.init(0), random_batch(step)});
    }
  return plans;
}

inline void run_once(MeasuredPlan& plan, bool counts) {
  const Stopwatch watch;
  const std::clock_t start = std::clock();
  plan.executable.run(plan.state, plan.batch).metrics["loss"];
  if (!counts) return;
  plan.seconds.push_back(watch.seconds());
  plan.processor_seconds.push_back(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC /
                                   usable_cores());
}

/// A row per plan, and one of all. Other programs on the machine disturb seconds of the processor
/// little.
inline void measure_predictions(const Cluster& cluster, int rounds) {
  std::vector<MeasuredPlan> plans = plans_on(cluster);
  for (int round = -1; round < rounds; ++round)
    for (MeasuredPlan& plan : plans) run_once(plan, round >= 0);
  const cost::CostModel model = cost::CostModel::of(cluster);
  std::vector<double> errors;
  for (const MeasuredPlan& plan : plans) {
    const double measured = median(plan.seconds);
    errors.push_back(std::abs(plan.predicted() - measured) / measured);
    std::vector<Figure> figures{{"measured_seconds", measured},
                                {"processor_seconds_per_core", median(plan.processor_seconds)},
                                {"predicted_seconds", plan.predicted()},
                                {"predicted_over_measured", plan.predicted() / measured}};
    if (!plan.executable.plan().schedule)
      figures.push_back(
          {"predicted_node_by_node_seconds", seconds_node_by_node(plan.executable, model)});
    print_row(plan.name, figures);
  }
  print_row("all", {{"plans", static_cast<double>(plans.size())},
                    {"median_error", median(errors)},
                    {"kendall_tau", kendall_tau(plans)}});
}

}  // namespace alpa::bench
