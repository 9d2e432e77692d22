// src/cuda/nccl_parent.cc — joins all cards of a program, and splits groups from them
#include "nccl_parent.h"

#include <algorithm>

#include "handles.h"
#include "nccl_calls.h"
#include "wait_until_done.h"

namespace alpa::cuda {
namespace {

void send_to_all(int size, const NcclRank& rank, std::byte* bytes, Stream stream) {
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank.index) continue;
    std::byte* const data = bytes + 2 * peer;
    check_begun(ncclSend(data, 1, ncclUint8, peer, rank.comm, stream), "ncclSend");
    check_begun(ncclRecv(data + 1, 1, ncclUint8, peer, rank.comm, stream), "ncclRecv");
  }
}

void abort_all(std::vector<NcclRank>& ranks) {
  for (NcclRank& rank : ranks)
    if (rank.comm != nullptr) ncclCommAbort(std::exchange(rank.comm, nullptr));
}

}  // namespace

NcclParent::NcclParent(int size, const std::string& id, std::span<const NcclCard> ranks,
                       const StillWell& still_well)
    : size_(size), still_well_(still_well) {
  const SameDevice same;
  for (const NcclCard& card : ranks) ranks_.push_back({card.index, card.ordinal, nullptr});
  try {
    grouped([&] {
      for (NcclRank& rank : ranks_)
        join_communicator(rank.comm, size_, id, rank.index, rank.ordinal, blocks());
    });
    wait_until_begun();
  } catch (...) {
    abort_all(ranks_);
    throw;
  }
}

NcclParent::~NcclParent() {
  for (NcclRank& rank : ranks_) leave_communicator(rank.comm, blocks());
}

std::vector<NcclRank> NcclParent::split(const std::vector<int>& members) {
  const SameDevice same;
  std::vector<NcclRank> made(ranks_.size());
  try {
    grouped([&] {
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        const auto at = std::find(members.begin(), members.end(), ranks_[r].index);
        const bool joins = at != members.end();
        made[r] = {static_cast<int>(at - members.begin()), ranks_[r].ordinal, nullptr};
        check(cudaSetDevice(ranks_[r].ordinal), "cudaSetDevice");
        check_begun(ncclCommSplit(ranks_[r].comm, joins ? 0 : NCCL_SPLIT_NOCOLOR, made[r].index,
                                  &made[r].comm, nullptr),
                    "ncclCommSplit");
      }
    });
    wait_until_begun();
  } catch (...) {
    // NCCL writes to `made` until the ranks that split have ended.
    abort_all(ranks_);
    abort_all(made);
    throw;
  }
  std::erase_if(made, [](const NcclRank& rank) { return rank.comm == nullptr; });
  std::sort(made.begin(), made.end(),
            [](const NcclRank& a, const NcclRank& b) { return a.index < b.index; });
  return made;
}

void connect_pairs(int size, std::span<const NcclRank> ranks, const StillWell& still_well) {
  const SameDevice same;
  std::vector<DeviceBlock> bytes;
  std::vector<StreamHandle> streams;
  try {
    for (const NcclRank& rank : ranks) {
      check(cudaSetDevice(rank.ordinal), "cudaSetDevice");
      bytes.push_back(allocate_device(2 * size));
      streams.push_back(make_stream());
    }
    grouped([&] {
      for (std::size_t r = 0; r < ranks.size(); ++r)
        send_to_all(size, ranks[r], static_cast<std::byte*>(bytes[r].get()), streams[r].get());
    });
    if (still_well)
      for (const NcclRank& rank : ranks) wait_until_begun(rank.comm, rank.index, size, still_well);
    for (const StreamHandle& stream : streams)
      wait_until_done([&] { return cudaStreamQuery(stream.get()); },
                      [&] { still_well ? still_well() : void(); });
  } catch (...) {
    // before the memory is freed, which waits for the messages
    for (const NcclRank& rank : ranks) ncclCommAbort(rank.comm);
    throw;
  }
}

void NcclParent::wait_until_begun() const {
  if (blocks()) return;
  for (const NcclRank& rank : ranks_)
    cuda::wait_until_begun(rank.comm, rank.index, size_, still_well_);
}

}  // namespace alpa::cuda
