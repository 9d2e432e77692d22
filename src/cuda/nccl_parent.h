#pragma once
/// The communicator of all cards of a program. Those of groups and lanes are split from it: every
/// process makes them in one order, and NCCL finds its way between the cards once. They do not
/// share its buffers: collectives of communicators that do would run one after the other.
#include <span>
#include <string>
#include <vector>

#include "nccl_group.h"

namespace alpa::cuda {

class NcclParent {
 public:
  /// Joins `size` ranks, of which `ranks` are in this process. `id` and `still_well` as for
  /// `make_nccl_group`. Collective. Throws Error.
  NcclParent(int size, const std::string& id, std::span<const NcclCard> ranks,
             const StillWell& still_well);
  ~NcclParent();
  NcclParent(const NcclParent&) = delete;
  NcclParent& operator=(const NcclParent&) = delete;

  /// A communicator of these ranks, in this order: its ranks in this process. Collective, of all
  /// ranks of the parent, in the same order everywhere. Throws Error, and ends the parent then: a
  /// rank that never comes would be waited for without end.
  std::vector<NcclRank> split(const std::vector<int>& members);

 private:
  bool blocks() const { return still_well_ == nullptr; }
  void wait_until_begun() const;

  const int size_;
  const StillWell still_well_;  ///< null: all ranks are in this process
  std::vector<NcclRank> ranks_;
};

/// Sends a byte from every rank of a communicator of `size` to every other one; `ranks`: those in
/// this process. Later no host thread waits for NCCL to connect two ranks, whose threads or
/// processes may be far apart in their programs then. Collective. Throws Error, and ends `ranks`
/// then.
void connect_pairs(int size, std::span<const NcclRank> ranks, const StillWell& still_well);

}  // namespace alpa::cuda
