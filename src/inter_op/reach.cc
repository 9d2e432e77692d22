// src/inter_op/reach.cc — the least devices that layers need, from the first and from the last on
#include "src/inter_op/reach.h"

#include <algorithm>
#include <limits>

namespace alpa::inter_op {
namespace {

constexpr int kNone = std::numeric_limits<int>::max() / 2;

/// Devices of each submesh; kNone: the tiling does not use it.
std::vector<int> sizes_of(const Tiling& tiling) {
  std::vector<int> sizes;
  for (const std::vector<TilingStep>& steps : tiling.steps)
    sizes.push_back(steps.empty() ? kNone
                                  : tiling.devices[steps[0].to] - tiling.devices[steps[0].from]);
  return sizes;
}

/// Devices that layers need at least in one stage.
int needed_by_stage(const PartitionTables& tables, const std::vector<int>& sizes, double bound,
                    int first, int last) {
  int least = kNone;
  for (int m = 0; m < tables.submeshes; ++m) {
    if (sizes[m] >= least) continue;
    const PartitionOption* option = tables.option(first, last, m, 0);
    if (option && option->seconds <= bound) least = sizes[m];
  }
  return least;
}

}  // namespace

std::vector<StateRange> states_in_reach(const PartitionTables& tables, const Tiling& tiling,
                                        double bound) {
  const std::vector<int> sizes = sizes_of(tiling);
  const int layers = tables.layers;
  std::vector<int> before(layers + 1, kNone), behind(layers + 1, kNone);  // that layers need
  std::vector<std::vector<int>> needed(layers, std::vector<int>(layers));
  before[0] = behind[layers] = 0;
  for (int last = 0; last < layers; ++last)
    for (int first = 0; first <= last; ++first) {
      needed[first][last] = needed_by_stage(tables, sizes, bound, first, last);
      before[last + 1] = std::min(before[last + 1], before[first] + needed[first][last]);
    }
  for (int first = layers - 1; first >= 0; --first)
    for (int last = first; last < layers; ++last)
      behind[first] = std::min(behind[first], needed[first][last] + behind[last + 1]);
  const std::vector<int>& devices = tiling.devices;
  std::vector<StateRange> ranges;
  for (int layer = 0; layer <= layers; ++layer) {
    const auto begin = std::lower_bound(devices.begin(), devices.end(), behind[layer]);
    const auto end =
        std::upper_bound(devices.begin(), devices.end(), devices[tiling.full] - before[layer]);
    ranges.push_back({static_cast<int>(begin - devices.begin()),
                      static_cast<int>(std::max(begin, end) - devices.begin())});
  }
  return ranges;
}

}  // namespace alpa::inter_op
