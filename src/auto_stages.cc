// src/auto_stages.cc — prices ranges of layers on parts of the cluster, and searches for stages
#include "auto_stages.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "alpa/base/error.h"
#include "src/base/timing.h"
#include "src/cost/transfer.h"
#include "src/inter_op/stage_search.h"
#include "src/intra_op/peak_memory.h"
#include "src/ir/input.h"
#include "src/ir/stages.h"
#include "src/ir/subgraph.h"
#include "stage_plan.h"

namespace alpa {
namespace {

/// Layers `first` to `last` as a graph of their own.
Graph range_of(const Graph& graph, int first, int last, int layers) {
  const int own = first > 0 ? 1 : 0;
  std::vector<int> stages(layers);
  for (int l = 0; l < layers; ++l) stages[l] = l < first ? 0 : l <= last ? own : own + 1;
  return subgraph(with_stages(graph, stages), own, own).graph;
}

/// What a plan of a range costs.
struct RangePrice {
  double seconds = 0;  ///< of a micro-batch, with its share of what runs once per step
  int max_in_flight = 0;
};

/// Bytes of a device, the first one, that a micro-batch in flight keeps for its backward run.
std::int64_t kept_bytes(const Graph& graph, const ShardingPlan& plan) {
  std::set<int> kept;
  for (const Node& node : graph.nodes)
    for (int value : node.operands)
      if (node.region == Region::backward && graph.producer(value).region == Region::forward)
        kept.insert(value);
  std::int64_t bytes = 0;
  const std::vector<int> first_device = plan.mesh.coordinates(0);
  for (int value : kept) {
    const Input* input = find_input(graph, value);
    const TensorType& type = graph.type(value);
    if (!input || input->kind == InputKind::boundary)
      bytes += TensorType{type.dtype,
                          local_shape(type.shape, plan.specs[value], plan.mesh, first_device)}
                   .bytes();
  }
  return bytes;
}

class StageSearch {
 public:
  StageSearch(const Graph& graph, const Cluster& cluster, std::int64_t budget,
              const RangePlanning& planning)
      : graph_(graph),
        cluster_(cluster),
        budget_(budget),
        planning_(planning),
        layers_(num_layers(graph)),
        whole_{cluster.num_hosts, cluster.devices_per_host},
        submeshes_(inter_op::submesh_choices(whole_, inter_op::SubmeshSpace::any_size)) {}

  inter_op::StagePartition run() {
    const inter_op::StageCosts costs = costs_of_ranges();
    const std::vector<double> bytes = bytes_across();
    const auto result = inter_op::search_stages(
        {.cluster = whole_,
         .submeshes = submeshes_,
         .costs = costs,
         .micro_batches = graph_.num_micro_batches,
         .transfer_seconds = [&](int layer, int before, int after) {
           return transfer_seconds(bytes[layer], submeshes_[before], submeshes_[after]);
         }});
    require(result.has_value(),
            "AutoStages: no stages of {} layers fit into {} bytes per device; give more layers or "
            "devices, or raise the memory budget",
            layers_, budget_);
    inter_op::StagePartition partition = result->partition;
    for (inter_op::Stage& stage : partition.stages)
      stage.configuration = -1;  // the planner's choice
    return partition;
  }

 private:
  /// Of ranges with graphs alike, the first is planned.
  inter_op::StageCosts costs_of_ranges() {
    inter_op::StageCosts costs(layers_, static_cast<int>(submeshes_.size()), 1);
    for (int first = 0; first < layers_; ++first)
      for (int last = first; last < layers_; ++last) {
        const Graph range = range_of(graph_, first, last, layers_);
        std::vector<RangePrice>& prices = known_[layer_hash(range)];
        for (int m = 0; m < costs.submeshes; ++m) {
          if (m == static_cast<int>(prices.size())) prices.push_back(plan(range, submeshes_[m]));
          const RangePrice& price = prices[m];
          costs.seconds[costs.index(first, last, m, 0)] = price.seconds;
          costs.max_in_flight[costs.index(first, last, m, 0)] = price.max_in_flight;
        }
      }
    return costs;
  }

  /// Its devices in a row, from number `first` on.
  DeviceMesh mesh_at(int first, const inter_op::Submesh& submesh) const {
    return logical_meshes(cluster_, submesh, neighbours(first, submesh), {submesh.num_devices()})
        .front();
  }

  static std::vector<int> neighbours(int first, const inter_op::Submesh& submesh) {
    std::vector<int> devices(submesh.num_devices());
    std::iota(devices.begin(), devices.end(), first);
    return devices;
  }

  RangePrice plan(const Graph& range, const inter_op::Submesh& submesh) const {
    intra_op::AutoShardOptions options = planning_.options;
    options.time_limit_seconds = std::max(0.0, options.time_limit_seconds - watch_.seconds());
    StagePlan stage;
    stage.graph = range;
    stage.plan =
        intra_op::auto_shard(range, logical_meshes(cluster_, submesh, neighbours(0, submesh)),
                             planning_.model, options, &planning_.cache);
    const StageSeconds seconds = stage_seconds(stage.plan, range, planning_.model);
    const std::int64_t one = intra_op::peak_memory(stage.plan, range).bytes;
    const std::int64_t more = std::max<std::int64_t>(kept_bytes(range, stage.plan), 1);
    const std::int64_t fit = one <= budget_ ? 1 + (budget_ - one) / more : 0;
    return {seconds.forward + seconds.backward + seconds.apply / graph_.num_micro_batches,
            static_cast<int>(std::min<std::int64_t>(fit, graph_.num_micro_batches))};
  }

  /// Per layer, bytes of tensors that a micro-batch passes between the layers before it and
  /// the rest, there and back.
  std::vector<double> bytes_across() const {
    std::vector<double> bytes(layers_, 0);
    for (int layer = 1; layer < layers_; ++layer) {
      std::vector<int> stages(layers_, 0);
      std::fill(stages.begin() + layer, stages.end(), 1);
      const Graph staged = with_stages(graph_, stages);
      std::set<int> crossing;
      for (const Node& node : staged.nodes)
        for (int value : node.operands)
          if (node.region != Region::apply && staged.producer(value).layer != node.layer)
            crossing.insert(value);
      for (int value : crossing) bytes[layer] += static_cast<double>(staged.type(value).bytes());
    }
    return bytes;
  }

  /// Tensors are split over the devices of the smaller part.
  double transfer_seconds(double bytes, const inter_op::Submesh& before,
                          const inter_op::Submesh& after) const {
    const Link link =
        cost::link_between(cluster_, mesh_at(0, before), mesh_at(before.num_devices(), after));
    const int devices = std::min(before.num_devices(), after.num_devices());
    return 2 * link.alpha_seconds + bytes / devices * link.beta_seconds_per_byte;
  }

  const Graph& graph_;
  const Cluster& cluster_;
  const std::int64_t budget_;
  const RangePlanning& planning_;
  const int layers_;
  const inter_op::Submesh whole_;
  const std::vector<inter_op::Submesh> submeshes_;
  const Stopwatch watch_;
  std::map<std::uint64_t, std::vector<RangePrice>> known_;  ///< by hash, per submesh
};

}  // namespace

inter_op::StagePartition auto_stages(const Graph& graph, const Cluster& cluster,
                                     std::int64_t budget, const RangePlanning& planning) {
  return StageSearch(graph, cluster, budget, planning).run();
}

}  // namespace alpa
