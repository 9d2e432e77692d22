// Seconds of planning, from the training step to device programs, and what is proven of the plan.
//   bench_planning CLUSTER_FILE [--rounds N]      a cluster of 8 hosts of 8, e.g.
//   tests/mesh/data/a100_8x8.json
#include <alpa/alpa.h>

#include "arguments.h"
#include "interleave.h"

using namespace alpa;

namespace {

TrainingStep mlp_step(std::int64_t layers, std::int64_t dim, std::int64_t batch) {
  nn::Sequential mlp;
  for (std::int64_t i = 0; i < layers; ++i) mlp.add(nn::Dense(i % 2 == 0 ? 4 * dim : dim)).add(nn::ReLU());
  const TensorType type{f32, {batch, dim}};
  return training_step(
      {{"x", type}, {"y", type}}, [mlp](const Batch& b) { return mean(square(mlp(b["x"]) - b["y"])); },
      optim::Adam{});
}

void measure(const char* name, const TrainingStep& step, const Method& method, const Cluster& cluster,
             int rounds) {
  std::vector<bench::Variant> variants{{name, [&] { plan_only(step, method, cluster); }}};
  bench::interleave(variants, rounds);
  const ShardingPlan plan = plan_only(step, method, cluster).plan;
  fmt::print(
      R"({{"name": "{}", "median_seconds": {:.4f}, "best_seconds": {:.4f}, "gap": {}, "nodes": {}, "variables": {}}})"
      "\n",
      name, bench::median(variants[0].seconds),
      *std::min_element(variants[0].seconds.begin(), variants[0].seconds.end()), plan.cost.gap(),
      plan.statistics.nodes, plan.statistics.variables);
}

void measure(const std::string& cluster_file, int rounds) {
  measure("12 layers on 2x4", mlp_step(12, 1024, 1024), ShardParallel{.mesh_shape = {2, 4}},
          Cluster::local(8), rounds);
  measure("12 layers on 8 devices, every mesh", mlp_step(12, 1024, 1024), ShardParallel{},
          Cluster::local(8), rounds);
  measure("96 layers on 8x8", mlp_step(96, 4096, 4096), ShardParallel{.mesh_shape = {8, 8}},
          Cluster::from_file(cluster_file), rounds);
}

}  // namespace

int main(int argc, char** argv) {
  std::string cluster_file;
  int rounds = 3;
  return bench::run(argc, argv, "Time of planning.",
                    {cli::text("CLUSTER_FILE", &cluster_file, "8x8 devices"),
                     cli::whole("--rounds", &rounds, "Counted rounds", 1, 1000)},
                    [&] { measure(cluster_file, rounds); });
}
