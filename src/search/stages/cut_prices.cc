// src/search/stages/cut_prices.cc — what crosses the cuts of a graph into stages
#include "src/search/stages/cut_prices.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "src/base/fnv.h"
#include "src/ir/lasting.h"
#include "src/ir/stages.h"
#include "src/plan/cost/transfer.h"
#include "src/search/stages/stage_graph.h"

namespace alpa {
namespace {

/// Not what a step is given: every stage loads it.
bool may_be_sent(const Graph& graph, int value) {
  const Input* input = find_input(graph, value);
  return !input || (input->kind != InputKind::batch && input->kind != InputKind::shared &&
                    input->kind != InputKind::scalar);
}

/// Per layer, a hash of the values that have nodes before it and from it on: of their sizes, and of
/// which regions make and use them on which side. Stages pass the same on at equal cuts.
std::vector<std::uint64_t> values_across(const Graph& graph, int layers) {
  struct Uses {
    int first = std::numeric_limits<int>::max(), last = 0;
    std::vector<std::pair<int, int>> at;  ///< layer, and region and whether it is a result
  };
  std::vector<Uses> uses(graph.values.size());
  for (const Node& node : graph.nodes)
    for (const auto* values : {&node.operands, &node.results})
      for (const int value : *values) {
        Uses& of = uses[value];
        of.first = std::min(of.first, node.layer), of.last = std::max(of.last, node.layer);
        of.at.emplace_back(node.layer,
                           2 * static_cast<int>(node.region) + (values == &node.results));
      }
  // Scalars, such as each layer's part of a norm, make no cut different from another.
  std::int64_t largest = 0;
  for (const ValueInfo& value : graph.values) largest = std::max(largest, value.type.bytes());
  const std::int64_t negligible = largest / 1'000'000;
  std::vector<std::uint64_t> across(layers);
  for (std::size_t value = 0; value < graph.values.size(); ++value) {
    const std::int64_t size = graph.type(static_cast<int>(value)).bytes();
    if (size <= negligible || !may_be_sent(graph, static_cast<int>(value))) continue;
    for (int cut = uses[value].first + 1; cut <= uses[value].last; ++cut) {
      std::string text = std::to_string(size);
      std::vector<int> sides;
      for (const auto& [layer, kind] : uses[value].at) sides.push_back(2 * kind + (layer < cut));
      std::sort(sides.begin(), sides.end());
      sides.erase(std::unique(sides.begin(), sides.end()), sides.end());
      for (const int side : sides) text += fmt::format(" {}", side);
      across[cut] += fnv1a(text);
    }
  }
  return across;
}

}  // namespace

/// Of tensors that pass between the layers before a cut and the rest.
std::vector<CutPrices::Bytes> CutPrices::bytes_of(const Graph& graph,
                                                  const Graph& staged_by_layer) {
  const int layers = num_layers(graph);
  std::vector<Bytes> bytes(layers);
  const auto across = values_across(staged_by_layer, layers);
  std::map<std::uint64_t, int> known;  // layer of an equal cut
  for (int layer = 1; layer < layers; ++layer) {
    const auto [equal, added] = known.try_emplace(across[layer], layer);
    if (!added) {
      bytes[layer] = bytes[equal->second];
      continue;
    }
    std::vector<int> stages(layers, 0);
    std::fill(stages.begin() + layer, stages.end(), 1);
    const Graph staged = stage_graph(graph, stages);
    const std::vector<bool> lasting = lasting_values(staged);
    std::map<int, int> crossing;  // how often, by value
    for (const Node& node : staged.nodes)
      for (int value : node.operands)
        if (staged.producer(value).layer != node.layer && may_be_sent(staged, value))
          crossing[value] =
              std::max(crossing[value], lasting[value] ? 1 : runs_per_step(staged, node));
    for (const auto& [value, times] : crossing) {
      const auto size = static_cast<double>(staged.type(value).bytes());
      Bytes& cut = bytes[layer];
      (times == 1 ? cut.per_step : cut.per_micro_batch) +=
          times == 1 ? size : times * size / graph.num_micro_batches;
    }
  }
  return bytes;
}

CutPrices::CutPrices(const Graph& graph, const Graph& staged, const Cluster& cluster,
                     std::vector<inter_op::Submesh> submeshes)
    : submeshes_(std::move(submeshes)),
      bytes_(bytes_of(graph, staged)),
      devices_per_host_(cluster.devices_per_host),
      within_host_(cost::link_between(cluster, true)),
      between_hosts_(cost::link_between(cluster, false)) {}

CutSeconds CutPrices::least(int layer, int before, int after) const {
  const inter_op::Submesh &a = submeshes_[before], &b = submeshes_[after];
  return least(layer, before, after,
               a.hosts == 1 && b.hosts == 1 && a.devices + b.devices <= devices_per_host_);
}

CutSeconds CutPrices::least(int layer, int before, int after, bool on_one_host) const {
  const auto seconds = [&](double there_and_back) {
    return 2 * cost::least_transfer_seconds(there_and_back / 2, submeshes_[before].num_devices(),
                                            submeshes_[after].num_devices(),
                                            on_one_host ? within_host_ : between_hosts_);
  };
  const Bytes& cut = bytes_[layer];
  return {seconds(cut.per_micro_batch), cut.per_step > 0 ? seconds(cut.per_step) : 0};
}

}  // namespace alpa
