#pragma once
/// Groups and channels of NCCL whose ranks are all in this process, on these cards.
#include <memory>
#include <numeric>
#include <vector>

#include "src/cuda/channel.h"
#include "src/cuda/nccl_parent.h"

namespace alpa::testing {

inline std::vector<cuda::NcclRank> joined_on(const std::vector<int>& ordinals) {
  std::vector<cuda::NcclCard> cards;
  for (const int ordinal : ordinals) cards.push_back({static_cast<int>(cards.size()), ordinal});
  const int size = static_cast<int>(ordinals.size());
  cuda::NcclParent parent(size, cuda::make_nccl_id(), cards, {});
  std::vector<int> all(ordinals.size());
  std::iota(all.begin(), all.end(), 0);
  return parent.split(all);
}

inline std::unique_ptr<cuda::CollectiveGroup> nccl_group_on(const std::vector<int>& ordinals) {
  return cuda::make_nccl_group(static_cast<int>(ordinals.size()), joined_on(ordinals));
}

inline std::unique_ptr<cuda::Channel> nccl_channel_on(int from, int to) {
  return cuda::make_nccl_channel(joined_on({from, to}));
}

}  // namespace alpa::testing
