// src/runtime/groups.cc — one group per set of communicating devices
#include "groups.h"

#include <algorithm>

namespace alpa::runtime {

Membership Groups::join(const std::vector<int>& devices, int device) {
  const auto [entry, fresh] = index_.try_emplace(devices, static_cast<int>(groups_.size()));
  if (fresh) groups_.push_back(make(devices));
  return {entry->second,
          static_cast<int>(std::find(devices.begin(), devices.end(), device) - devices.begin())};
}

std::unique_ptr<comm::Group> Groups::make(const std::vector<int>& devices) const {
  comm::GroupPlaces places;
  places.rank = placement_.rank();
  for (const int device : devices) places.ranks.push_back(placement_.rank_of(device));
  if (processes::World* const world = placement_.world()) {
    places.first_tag = placement_.tag_of_group(devices, communication_);
    places.courier = &world->courier();
  }
  return comm::make_group(places);
}

void Groups::abort() {
  for (auto& group : groups_) group->abort();
}

void Groups::renew() {
  for (const auto& [devices, index] : index_) groups_[index] = make(devices);
}

void Groups::reset_counts() {
  for (const auto& [devices, index] : index_)
    for (std::size_t member = 0; member < devices.size(); ++member)
      if (placement_.here(devices[member])) groups_[index]->reset_counts(static_cast<int>(member));
}

std::int64_t Groups::reserved_bytes(int device) const {
  std::int64_t bytes = 0;
  for (const auto& [devices, index] : index_) {
    const auto at = std::find(devices.begin(), devices.end(), device);
    if (at != devices.end())
      bytes += groups_[index]->reserved_bytes(static_cast<int>(at - devices.begin()));
  }
  return bytes;
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
