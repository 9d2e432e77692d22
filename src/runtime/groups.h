#pragma once
/// The groups of one set of threads: one comm::Group per set of communicating devices.
#include <map>
#include <memory>
#include <vector>

#include "placement.h"
#include "src/comm/group.h"

namespace alpa::runtime {

/// A device's place in a group.
struct Membership {
  int group = -1, member = -1;
};

class Groups {
 public:
  /// `communication`: of communication threads. `placement` outlives this.
  Groups(const Placement& placement, bool communication)
      : placement_(placement), communication_(communication) {}

  /// Membership of `device` in the group of these devices, which is made if it is new.
  Membership join(const std::vector<int>& devices, int device);
  comm::Group& operator[](const Membership& membership) { return *groups_[membership.group]; }

  /// Aborts all groups; they cannot be used until `renew`.
  void abort();
  void renew();

  void reset_counts();
  /// Bytes that calls of `device` need for messages between processes.
  std::int64_t reserved_bytes(int device) const;
  /// Counts of `device` per group it is in: group size and counts.
  std::vector<std::pair<int, comm::Counts>> counts(int device) const;

 private:
  std::unique_ptr<comm::Group> make(const std::vector<int>& devices) const;

  const Placement& placement_;
  const bool communication_;
  std::map<std::vector<int>, int> index_;
  std::vector<std::unique_ptr<comm::Group>> groups_;
};

}  // namespace alpa::runtime
