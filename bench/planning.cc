// Seconds of the processor for planning by phase, from the training step to the device programs of
// all ranks: how they grow with the number of equal layers, and the peak memory of the process.
//   bench_planning CLUSTER_FILE [--model mlp|gpt] [--layers N] [--rounds N]
// CLUSTER_FILE: 8 hosts of 8 devices, e.g. clusters/a100_8x8.json. One case a process, so that the
// memory is that of the case.
#include <alpa/alpa.h>
#include <sys/resource.h>

#include <ctime>
#include <utility>

#include "arguments.h"
#include "report.h"
#include "src/cost/cost_model.h"
#include "src/intra_op/auto_shard.h"
#include "src/lower/rank_classes.h"
#include "src/runtime/executor.h"
#include "tests/support/gpt_stack.h"

using namespace alpa;

namespace {

TrainingStep mlp_step(int layers, std::int64_t dim, std::int64_t batch) {
  nn::Sequential mlp;
  for (int i = 0; i < layers; ++i) mlp.add(nn::Dense(i % 2 == 0 ? 4 * dim : dim)).add(nn::ReLU());
  const TensorType type{f32, {batch, dim}};
  return training_step(
      {{"x", type}, {"y", type}},
      [mlp](const Batch& b) { return mean(square(mlp(b["x"]) - b["y"])); }, optim::Adam{});
}

/// Seconds of the processor since the last call, as a figure: other programs on
/// the machine disturb little.
class Clock {
 public:
  bench::Figure lap(std::string name) {
    const std::clock_t now = std::clock();
    return {std::move(name), static_cast<double>(now - std::exchange(last_, now)) / CLOCKS_PER_SEC};
  }

 private:
  std::clock_t last_ = std::clock();
};

double peak_gigabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1e6;
}

/// The passes of src/parallelize.cc, one by one.
std::vector<bench::Figure> phases(const TrainingStep& step,
                                  const intra_op::AutoShardOptions& method,
                                  const Cluster& cluster) {
  std::vector<bench::Figure> figures;
  Clock clock;
  double total = 0;
  const auto done = [&](const char* name) {
    figures.push_back(clock.lap(name));
    total += figures.back().value;
  };
  const Graph graph = step.trace(1);
  done("trace");
  verify(graph);
  done("verify_graph");
  intra_op::AutoSharding search(graph, {cluster.mesh({8, 8})}, cost::CostModel::of(cluster),
                                method);
  const ShardingPlan plan = search.plan();
  done("plan");
  verify(plan, graph);
  done("verify_plan");
  const spmd::SpmdProgram partitioned = spmd::partition(graph, plan);
  done("partition");
  verify(partitioned);
  done("verify_partitioned");
  const spmd::SpmdProgram fused = spmd::fuse_elementwise(partitioned);
  done("fuse");
  const spmd::SpmdProgram program = spmd::bucket_collectives(fused, 1 << 20);
  done("bucket");
  verify(fused);
  verify(program);
  done("verify_programs");
  const runtime::LoweredProgram lowered =
      runtime::lower_program(program, {.threads_per_device = 1, .overlap = Overlap::always}, "cpu");
  done("lower");
  const std::vector<lower::DeviceProgram> devices = lower::programs_of_all(program, lowered.firsts);
  done("all_ranks");
  std::int64_t bytes = 0;
  for (const lower::DeviceProgram& device : devices) bytes = std::max(bytes, device.arena_bytes);
  figures.push_back({"total", total});
  figures.push_back({"nodes", static_cast<double>(program.graph.nodes.size())});
  figures.push_back({"objective_seconds", plan.cost.objective_seconds});
  figures.push_back({"planned_bytes", static_cast<double>(bytes)});
  return figures;
}

void measure(const std::string& cluster_file, const std::string& model, int layers, int rounds) {
  Cluster cluster = Cluster::from_file(cluster_file);
  const bool gpt = model == "gpt";
  const TrainingStep step =
      gpt ? testing::gpt_step({.layers = layers, .batch = 64}) : mlp_step(layers, 4096, 4096);
  const intra_op::AutoShardOptions method =
      gpt ? intra_op::zero3_options() : intra_op::AutoShardOptions{};
  for (int round = 0; round < rounds; ++round) {
    std::vector<bench::Figure> figures = phases(step, method, cluster);
    figures.push_back({"peak_gigabytes", peak_gigabytes()});
    bench::print_row(fmt::format("{} {} layers on 8x8", model, layers), figures);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string cluster_file, model = "mlp";
  int layers = 96, rounds = 1;
  return bench::run(argc, argv, "Time of planning by phase.",
                    {cli::text("CLUSTER_FILE", &cluster_file, "8x8 devices"),
                     cli::text("--model", &model, "mlp or gpt (ZeRO-3)"),
                     cli::whole("--layers", &layers, "Layers", 1, 100000),
                     cli::whole("--rounds", &rounds, "Rounds", 1, 1000)},
                    [&] { measure(cluster_file, model, layers, rounds); });
}
