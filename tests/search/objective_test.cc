// On any cluster the plan costs what the solver says it costs: auto_shard
// throws a Bug where they differ.
#include <doctest/doctest.h>

#include <random>

#include "alpa/alpa.h"

namespace objective_test {

using namespace alpa;

namespace {

/// Two dense layers with ReLU, the first three times as wide, and Adam.
TrainingStep two_layers(std::int64_t dim, std::int64_t batch) {
  const TensorType type{f32, {batch, dim}};
  return training_step(
      {{"x", type}, {"y", type}},
      [dim](const Batch& b) {
        nn::Sequential mlp{nn::Dense(3 * dim), nn::ReLU(), nn::Dense(dim), nn::ReLU()};
        return nn::mean_squared_error(mlp(b["x"]), b["y"]);
      },
      optim::Adam{});
}

Cluster cluster_of(int devices, double memory, double link, double alpha) {
  Cluster cluster;
  cluster.devices_per_host = devices;
  cluster.device.memory_bytes = std::int64_t{1} << 40;
  cluster.device.flops_per_second = {{f32, 1e12}};
  cluster.device.memory_bytes_per_second = memory;
  cluster.within_host = {alpha, 1 / link};
  return cluster;
}

}  // namespace

TEST_CASE("links a thousand times faster than memory") {
  const ShardParallel method{.num_micro_batches = 2, .mesh_shape = {6, 2}};
  const CompiledStep planned = plan_only(two_layers(128, 20), method, cluster_of(12, 1e9, 1e12, 0));
  CHECK(planned.plan.cost.gap() == 0);
}

TEST_CASE("random clusters, widths and meshes") {
  std::mt19937 random(5);
  const auto pick = [&](const std::vector<double>& values) {
    return values[random() % values.size()];
  };
  for (int round = 0; round < 30; ++round) {
    const std::vector<int> shape =
        std::vector<std::vector<int>>{{2}, {5}, {2, 3}, {4, 2}, {6, 2}, {2, 2, 2}}[random() % 6];
    int devices = 1;
    for (int size : shape) devices *= size;
    const double memory = pick({1e8, 1e9, 1e11}), link = pick({1e9, 1e11, 1e12}),
                 alpha = pick({0, 1e-6});
    const std::int64_t dim = static_cast<std::int64_t>(pick({7, 20, 128}));
    INFO("round " << round << ", memory " << memory << ", link " << link << ", alpha " << alpha
                  << ", dim " << dim);
    const ShardParallel method{.num_micro_batches = 1 + round % 2, .mesh_shape = shape};
    CHECK_NOTHROW(plan_only(two_layers(dim, 20), method, cluster_of(devices, memory, link, alpha)));
  }
}

}  // namespace objective_test
