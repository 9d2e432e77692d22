#pragma once
/// Meshes, cost models and questions about plans that the planner's tests share.
#include <map>
#include <string>
#include <vector>

#include "src/ops/all_ops.h"
#include "src/search/sharding/auto_shard.h"

namespace alpa::testing {

/// A mesh of these sizes, every axis with its α and β.
inline DeviceMesh priced_mesh(const std::vector<int>& sizes, std::vector<double> alpha = {},
                              std::vector<double> beta = {}) {
  alpha.resize(sizes.size(), 1);
  beta.resize(sizes.size(), 1);
  std::vector<MeshAxis> axes;
  for (std::size_t a = 0; a < sizes.size(); ++a)
    axes.push_back({std::string(1, static_cast<char>('x' + a)), sizes[a], alpha[a], beta[a]});
  return DeviceMesh(axes);
}

/// α + 2β(n-1)/n·bytes.
inline double all_reduce(double bytes, int n, double alpha = 1, double beta = 1) {
  return alpha + 2 * beta * (n - 1) / n * bytes;
}
/// α + β(n-1)/n·bytes: also reduce_scatter of the operand's bytes and all_gather of the result's.
inline double half_all_reduce(double bytes, int n, double alpha = 1, double beta = 1) {
  return alpha + beta * (n - 1) / n * bytes;
}

/// Steps of a plan's reshardings by kind.
inline std::map<std::string, int> count_steps(const ShardingPlan& plan) {
  std::map<std::string, int> counts;
  for (const PlannedReshard& r : plan.reshards) {
    for (const ReshardStep& step : r.path.steps) ++counts[std::string(name_of(step.kind))];
  }
  return counts;
}

inline int count_collectives(const ShardingPlan& plan) {
  const auto counts = count_steps(plan);
  int total = 0;
  for (const char* kind : {"all_reduce", "reduce_scatter", "all_gather", "all_to_all"})
    total += counts.count(kind) ? counts.at(kind) : 0;
  return total;
}

/// Spec of the input of this name.
inline std::string spec_of(const ShardingPlan& plan, const Graph& graph, const std::string& name) {
  for (const Input& input : graph.inputs) {
    if (input.name == name) return to_string(plan.specs[input.value]);
  }
  return "no input " + name;
}

/// Devices of 1 GFLOP/s and links of which the second axis' are slower.
inline cost::CostModel some_model() {
  cost::CostModel model;
  model.device = {.memory_bytes = 1 << 30,
                  .flops_per_second = {{f32, 1e9}},
                  .memory_bytes_per_second = 1e9,
                  .launch_seconds = 1e-6};
  model.reshard.memory_bytes_per_second = 1e9;
  model.reshard.launch_seconds = 1e-6;
  return model;
}

inline DeviceMesh some_mesh(const std::vector<int>& sizes) {
  return priced_mesh(sizes, {1e-6, 1e-6}, {1e-9, 1e-8});
}

}  // namespace alpa::testing
