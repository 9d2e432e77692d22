// Predicted and measured seconds of a step on CPU devices: as the planner prices it, loops as a
// whole, and with every node priced apart. Measured are seconds of the processor divided by the
// cores, the median of all rounds, so that other programs on the machine disturb little.
//   bench_forecast [--devices N] [--rounds N]
#include <alpa/alpa.h>

#include <ctime>

#include "arguments.h"
#include "interleave.h"
#include "mlp.h"
#include "report.h"
#include "src/base/thread_team.h"
#include "src/cost/cost_model.h"
#include "src/intra_op/facts/strategy.h"
#include "src/ir/op_def.h"
#include "tests/support/gpt_stack.h"

using namespace alpa;

namespace {

/// A few products with long chains of formulas between them.
TrainingStep elementwise_step(std::int64_t rows, std::int64_t width, int layers) {
  const TensorType type{f32, {rows, width}};
  return training_step(
      {{"x", type}, {"y", type}},
      [=](const Batch& batch) {
        Value x = batch["x"];
        Builder& g = x;
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
double seconds_node_by_node(const Executable& step, const cost::CostModel& model) {
  const Graph& graph = step.graph();
  const ShardingPlan& plan = step.plan().sharding();
  double seconds = plan.cost.communication_seconds;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (node.op->work == Work::free || node.operands.empty()) continue;
    std::vector<TensorType> results;
    for (int value : node.results) results.push_back(graph.type(value));
    seconds += operator_seconds(rule_of(graph, node),
                                intra_op::factor_of_axis(plan.strategies[n], plan.mesh),
                                operand_types(graph, node), results, plan.mesh, model);
  }
  return seconds;
}

BatchData batch_of(const Graph& graph) {
  BatchData batch;
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::batch)
      batch.emplace(input.name, bench::random_array(graph.type(input.value).shape));
  return batch;
}

void measure(const char* name, const TrainingStep& step, int devices, int rounds) {
  const Cluster cluster = Cluster::local(devices);
  const Executable executable = parallelize(step, ShardParallel{}, cluster);
  TrainState state = executable.init(0);
  const BatchData batch = batch_of(executable.graph());
  std::vector<double> seconds;
  for (int round = -1; round < rounds; ++round) {
    const std::clock_t start = std::clock();
    executable.run(state, batch).metrics["loss"];
    if (round >= 0)
      seconds.push_back(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC /
                        usable_cores());
  }
  const double measured = median(seconds), predicted = executable.plan().cost.objective_seconds,
               apart = seconds_node_by_node(executable, cost::CostModel::of(cluster));
  bench::print_row(name, {{"measured_seconds", measured},
                          {"predicted_seconds", predicted},
                          {"predicted_node_by_node_seconds", apart},
                          {"measured_over_predicted", measured / predicted},
                          {"measured_over_node_by_node", measured / apart}});
}

}  // namespace

int main(int argc, char** argv) {
  int devices = 1, rounds = 9;
  return bench::run(
      argc, argv, "Predicted and measured time of steps.",
      {cli::whole("--devices", &devices, "CPU devices", 1, 64),
       cli::whole("--rounds", &rounds, "Counted rounds", 1, 1000)},
      [&] {
        measure("elementwise stack", elementwise_step(4096, 1024, 6), devices, rounds);
        measure("MLP", bench::mlp_step({512, 2048, 8}), devices, rounds);
        measure("GPT-like stack",
                testing::gpt_step(
                    {.layers = 2, .batch = 8, .sequence = 128, .hidden = 256, .heads = 4}),
                devices, rounds);
      });
}
