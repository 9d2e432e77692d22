#include "groups.h"

#include <algorithm>

namespace alpa {

Membership Groups::join(const std::vector<int>& ranks, int rank) {
  const auto [entry, fresh] = index_.try_emplace(ranks, static_cast<int>(groups_.size()));
  if (fresh) groups_.push_back(comm::make_thread_group(static_cast<int>(ranks.size())));
  return {entry->second, static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin())};
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

std::vector<std::pair<int, comm::Counts>> Groups::counts(int rank) const {
  std::vector<std::pair<int, comm::Counts>> counts;
  for (const auto& [ranks, index] : index_) {
    const auto at = std::find(ranks.begin(), ranks.end(), rank);
    if (at == ranks.end()) continue;
    counts.emplace_back(static_cast<int>(ranks.size()),
                        groups_[index]->counts(static_cast<int>(at - ranks.begin())));
  }
  return counts;
}

}  // namespace alpa
