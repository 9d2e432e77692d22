// src/intra_op/copy_states.cc — when a resharded copy exists
#include "instance.h"

namespace alpa {
namespace {

/// Extends the makings so far by the regions from `next` on: leave one out, make anew, or keep from the
/// region before.
void extend(const std::vector<Region>& regions, std::size_t next, std::vector<Making>& makings,
            std::vector<CopyState>& states) {
  if (next == regions.size()) {
    if (!makings.empty()) states.push_back({makings, false});
    return;
  }
  extend(regions, next + 1, makings, states);
  makings.push_back({regions[next], regions[next]});
  extend(regions, next + 1, makings, states);
  makings.pop_back();
  if (makings.empty() || makings.back().last != regions[next - 1]) return;
  const Region last = makings.back().last;
  makings.back().last = regions[next];
  extend(regions, next + 1, makings, states);
  makings.back().last = last;
}

}  // namespace

std::vector<CopyState> copy_states(const std::vector<Region>& regions) {
  std::vector<CopyState> states = {{}, {{}, true}};
  std::vector<Making> makings;
  extend(regions, 0, makings, states);
  return states;
}

bool covers(const CopyState& state, Region region) {
  if (state.own) return true;
  for (const Making& m : state.makings) {
    if (m.first <= region && region <= m.last) return true;
  }
  return false;
}

}  // namespace alpa
