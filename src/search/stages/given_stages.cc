// src/search/stages/given_stages.cc — uniform stages, and the checks of manual ones
#include "src/search/stages/given_stages.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "alpa/base/error.h"
#include "src/base/infinity.h"

namespace alpa::inter_op {

std::vector<Submesh> equal_submeshes(const Submesh& cluster, int stages) {
  const int devices = stages > 0 ? cluster.num_devices() / stages : 0;
  if (cluster.hosts == 1 && devices > 0) {
    std::vector<Submesh> parts(stages, {1, devices});
    for (int s = 0; s < cluster.devices % stages; ++s) ++parts[s].devices;
    return parts;
  }
  const bool part = devices > 0 && cluster.devices % devices == 0;
  const bool whole_hosts = devices > 0 && devices % cluster.devices == 0;
  require(devices * stages == cluster.num_devices() && stages > 0 && (part || whole_hosts),
          "uniform stages: {} stages cannot have equal parts of cluster {} ({} devices); give a "
          "number of stages with whole hosts or equal parts of a host, or manual stages",
          stages, cluster, cluster.num_devices());
  const Submesh submesh =
      part ? Submesh{1, devices} : Submesh{devices / cluster.devices, cluster.devices};
  return std::vector<Submesh>(stages, submesh);
}

namespace {

/// The least total of combine(total so far, FLOPs per device of a stage), and its cuts: per stage
/// its first layer, then the number of layers. Of equal cuts, those with more layers in later
/// stages. No stage exceeds `limit`.
template <class Combine>
std::pair<double, std::vector<int>> best_cuts(const std::vector<double>& flops_before,
                                              const std::vector<Submesh>& submeshes, double limit,
                                              const Combine& combine) {
  const int layers = static_cast<int>(flops_before.size()) - 1;
  const int stages = static_cast<int>(submeshes.size());
  std::vector<std::vector<double>> best(stages + 1, std::vector<double>(layers + 1, kInfinity));
  std::vector<std::vector<int>> begin(stages + 1, std::vector<int>(layers + 1, 0));
  best[0][0] = 0;
  for (int s = 1; s <= stages; ++s)
    for (int end = s; end <= layers; ++end)
      for (int first = end - 1; first >= s - 1; --first) {
        const double flops =
            (flops_before[end] - flops_before[first]) / submeshes[s - 1].num_devices();
        const double total = combine(best[s - 1][first], flops);
        if (flops > limit || total > best[s][end]) continue;
        best[s][end] = total;
        begin[s][end] = first;
      }
  std::vector<int> cuts = {layers};
  for (int s = stages; s > 0; --s) cuts.insert(cuts.begin(), begin[s][cuts.front()]);
  return {best[stages][layers], cuts};
}

}  // namespace

StagePartition uniform_stages(const std::vector<double>& layer_flops,
                              const std::vector<Submesh>& submeshes) {
  const int stages = static_cast<int>(submeshes.size());
  require(stages >= 1 && stages <= static_cast<int>(layer_flops.size()),
          "uniform stages: {} stages of {} layers; give between 1 and {}", stages,
          layer_flops.size(), layer_flops.size());
  std::vector<double> flops_before = {0};
  for (double flops : layer_flops) flops_before.push_back(flops_before.back() + flops);
  const auto largest = best_cuts(flops_before, submeshes, kInfinity,
                                 [](double most, double flops) { return std::max(most, flops); });
  const auto cuts = best_cuts(flops_before, submeshes, largest.first, [](double sum, double flops) {
                      return sum + flops * flops;
                    }).second;
  StagePartition partition;
  for (int s = 0; s < stages; ++s)
    partition.stages.push_back({cuts[s], cuts[s + 1] - 1, submeshes[s], -1});
  return partition;
}

namespace {

void check_layers(const std::vector<std::vector<int>>& stages, int layers) {
  std::vector<int> stage_of(layers, -1);
  for (int s = 0; s < static_cast<int>(stages.size()); ++s) {
    require(!stages[s].empty(),
            "manual stages: stage {} has no layers; give it one or leave it out", s);
    for (int layer : stages[s]) {
      require(layer >= 0 && layer < layers,
              "manual stages: stage {} has layer {}, but the model has layers 0 to {}", s, layer,
              layers - 1);
      require(stage_of[layer] < 0,
              "manual stages: layer {} is in stage {} and in stage {}; give each layer once", layer,
              stage_of[layer], s);
      stage_of[layer] = s;
    }
  }
  for (int layer = 0; layer < layers; ++layer)
    require(stage_of[layer] >= 0,
            "manual stages: layer {} is in no stage; give each of the {} layers once", layer,
            layers);
  int next = 0;
  for (int s = 0; s < static_cast<int>(stages.size()); ++s)
    for (int layer : stages[s]) {
      require(layer == next,
              "manual stages: stage {} has layer {} where layer {} is expected; give consecutive "
              "layers in ascending order",
              s, layer, next);
      ++next;
    }
}

void check_shapes(const std::vector<std::vector<int>>& shapes,
                  const std::vector<Submesh>& submeshes) {
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    int devices = 1;
    for (int size : shapes[s]) devices *= size;
    require(devices == submeshes[s].num_devices() &&
                std::ranges::all_of(shapes[s], [](int size) { return size > 0; }),
            "manual stages: stage {} has logical shape {} on submesh {}; give one of {} devices", s,
            fmt::join(shapes[s], "x"), submeshes[s], submeshes[s].num_devices());
  }
}

}  // namespace

StagePartition manual_stages(const GivenStages& given, int layers, const Submesh& cluster) {
  const std::size_t stages = given.layers.size();
  check_layers(given.layers, layers);
  const std::vector<Submesh> submeshes = given.submeshes.empty()
                                             ? equal_submeshes(cluster, static_cast<int>(stages))
                                             : given.submeshes;
  const bool shaped = !given.logical_shapes.empty();
  require(
      submeshes.size() == stages && (!shaped || given.logical_shapes.size() == stages),
      "manual stages: layers of {} stages, {} submeshes and {} logical shapes; give one of each "
      "per stage, or none",
      stages, given.submeshes.size(), given.logical_shapes.size());
  place(cluster, submeshes);
  check_shapes(given.logical_shapes, submeshes);
  StagePartition partition;
  for (int s = 0; s < static_cast<int>(stages); ++s)
    partition.stages.push_back(
        {given.layers[s].front(), given.layers[s].back(), submeshes[s], shaped ? s : -1});
  return partition;
}

}  // namespace alpa::inter_op
