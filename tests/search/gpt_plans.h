#pragma once
/// What tests of plans for GPT-like stacks share.
#include <limits>

#include "alpa/mesh/cluster.h"
#include "src/search/sharding/auto_shard.h"
#include "support/gpt_stack.h"

namespace alpa::testing {

/// Devices of 100 TFLOP/s and 2 TB/s; links of 100 GB/s within a host, 25 GB/s between hosts.
inline Cluster gpu_cluster(int hosts, int devices_per_host) {
  Cluster cluster;
  cluster.num_hosts = hosts;
  cluster.devices_per_host = devices_per_host;
  cluster.device = {.memory_bytes = std::int64_t{80} << 30,
                    .flops_per_second = {{f32, 1e14}},
                    .memory_bytes_per_second = 2e12,
                    .launch_seconds = 3e-6};
  cluster.within_host = {5e-6, 1e-11};
  cluster.between_hosts = {2e-5, 4e-11};
  return cluster;
}

inline double seconds_of(const Graph& graph, const DeviceMesh& mesh, const cost::CostModel& model,
                         const intra_op::AutoShardOptions& options) {
  return intra_op::auto_shard(graph, mesh, model, options).cost.objective_seconds;
}

/// Of data parallelism, ZeRO-2 and ZeRO-3.
inline double least_restricted_seconds(const Graph& graph, const DeviceMesh& mesh,
                                       const cost::CostModel& model) {
  double least = std::numeric_limits<double>::infinity();
  for (const intra_op::AutoShardOptions& options :
       {intra_op::data_parallel_options(), intra_op::zero2_options(), intra_op::zero3_options()})
    least = std::min(least, seconds_of(graph, mesh, model, options));
  return least;
}

}  // namespace alpa::testing
