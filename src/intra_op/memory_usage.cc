// src/intra_op/memory_usage.cc — bytes over time
#include "memory_usage.h"

#include <algorithm>

namespace alpa {
namespace {

/// Of a budget; smaller values are counted at their largest, all together.
constexpr std::int64_t kWorthCounting = 50'000;

}  // namespace

MemoryUsage::MemoryUsage(const Graph& graph, const SearchSpace& space, const DeviceMesh& mesh,
                         std::int64_t budget_bytes)
    : graph_(graph),
      space_(space),
      mesh_(mesh),
      budget_(budget_bytes),
      ranges_(live_ranges(graph, uses_of_values(graph))) {}

bool MemoryUsage::matters(int value) const { return graph_.type(value).bytes() > budget_ / kWorthCounting; }

std::int64_t MemoryUsage::bytes_of(int type, int spec) {
  const auto [place, added] = bytes_.try_emplace({type, spec});
  const TypeLayouts& layouts = space_.layouts.of(type);
  if (added) place->second = shard_bytes(layouts.type, layouts.specs[spec], mesh_);
  return place->second;
}

std::vector<ilp::Usage> MemoryUsage::of_results(int node) {
  std::vector<ilp::Usage> usages;
  const Choices& choices = space_.of(node);
  for (std::size_t i = 0; i < choices.produced.size(); ++i) {
    const int value = graph_.nodes[node].results[i];
    const LiveRange& range = ranges_[value];
    if (!matters(value) || range.from >= range.to) continue;
    ilp::Usage usage{range.from, range.to, {}};
    for (int spec : choices.produced[i]) usage.amounts.push_back(bytes_of(choices.result_types[i], spec));
    usages.push_back(std::move(usage));
  }
  return usages;
}

std::vector<ilp::Usage> MemoryUsage::of_copy(int value, int spec, const std::vector<CopyState>& states,
                                             const std::vector<Use>& uses) {
  std::vector<ilp::Usage> usages;
  const ValueInfo& info = graph_.values[value];
  const std::int64_t bytes = bytes_of(space_.of(info.producer).result_types[info.index], spec);
  for (std::size_t s = 0; s < states.size(); ++s) {
    for (const Making& making : states[s].makings) {
      ilp::Usage usage{static_cast<std::int64_t>(graph_.nodes.size()) + 1, 0,
                       std::vector<std::int64_t>(states.size(), 0)};
      for (const Use& use : uses) {
        const Region region = region_of_use(graph_, use.id);
        if (region < making.first || region > making.last) continue;
        const std::int64_t point = point_of_use(graph_, use.id);
        usage.from = std::min(usage.from, point);
        usage.to = std::max(usage.to, point + 1);
      }
      usage.amounts[s] = bytes;
      usages.push_back(std::move(usage));
    }
  }
  return usages;
}

std::int64_t MemoryUsage::limit() const {
  std::int64_t small = 0;
  for (int value = 0; value < static_cast<int>(graph_.values.size()); ++value) {
    if (!matters(value)) small += graph_.type(value).bytes();
  }
  return std::max<std::int64_t>(0, budget_ - small);
}

}  // namespace alpa
