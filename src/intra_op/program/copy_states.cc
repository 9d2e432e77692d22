// The possible lifetimes of a resharded copy
#include "src/intra_op/program/instance.h"

namespace alpa::intra_op {
namespace {

/// Extends the lifetimes so far by the regions from `next` on: leave one out, make anew, or
/// keep from the region before.
void extend(const std::vector<Region>& regions, std::size_t next,
            std::vector<CopyLifetime>& lifetimes, std::vector<CopyState>& states) {
  if (next == regions.size()) {
    if (!lifetimes.empty()) states.push_back({lifetimes, false});
    return;
  }
  extend(regions, next + 1, lifetimes, states);
  lifetimes.push_back({regions[next], regions[next]});
  extend(regions, next + 1, lifetimes, states);
  lifetimes.pop_back();
  if (lifetimes.empty() || lifetimes.back().last != regions[next - 1]) return;
  const Region last = lifetimes.back().last;
  lifetimes.back().last = regions[next];
  extend(regions, next + 1, lifetimes, states);
  lifetimes.back().last = last;
}

}  // namespace

std::vector<CopyState> copy_states(const std::vector<Region>& regions) {
  std::vector<CopyState> states = {{}, {{}, true}};
  std::vector<CopyLifetime> lifetimes;
  extend(regions, 0, lifetimes, states);
  return states;
}

bool covers(const CopyState& state, Region region) {
  if (state.own) return true;
  for (const CopyLifetime& m : state.lifetimes) {
    if (m.first <= region && region <= m.last) return true;
  }
  return false;
}

}  // namespace alpa::intra_op
