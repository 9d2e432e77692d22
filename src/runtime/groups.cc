// src/runtime/groups.cc — one thread group per set of communicating devices
#include "groups.h"

#include <algorithm>

namespace alpa::runtime {

Membership Groups::join(const std::vector<int>& devices, int device) {
  const auto [entry, fresh] = index_.try_emplace(devices, static_cast<int>(groups_.size()));
  if (fresh) groups_.push_back(comm::make_thread_group(static_cast<int>(devices.size())));
  return {entry->second,
          static_cast<int>(std::find(devices.begin(), devices.end(), device) - devices.begin())};
}

void Groups::abort() {
  for (auto& group : groups_) group->abort();
}

void Groups::renew() {
  for (auto& group : groups_) group = comm::make_thread_group(group->size());
}

void Groups::reset_counts() {
  for (auto& group : groups_)
    for (int member = 0; member < group->size(); ++member) group->reset_counts(member);
}

std::vector<std::pair<int, comm::Counts>> Groups::counts(int device) const {
  std::vector<std::pair<int, comm::Counts>> counts;
  for (const auto& [devices, index] : index_) {
    const auto at = std::find(devices.begin(), devices.end(), device);
    if (at == devices.end()) continue;
    counts.emplace_back(static_cast<int>(devices.size()),
                        groups_[index]->counts(static_cast<int>(at - devices.begin())));
  }
  return counts;
}

}  // namespace alpa::runtime
