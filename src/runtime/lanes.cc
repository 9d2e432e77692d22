// src/runtime/lanes.cc — messages between devices of one process
#include "lanes.h"

#include <array>

#include "alpa/base/error.h"
#include "src/comm/group.h"
#include "src/tensor/box_copy.h"

namespace alpa::runtime {
namespace {

using At = std::array<std::int64_t, BoxCopy::kMaxRank>;

/// The begin of the message's box in the local tensor.
Extents place_of(const MessagePart& part, At& at) {
  const std::size_t rank = part.tensor->offset.size();
  for (std::size_t d = 0; d < rank; ++d) at[d] = part.message->begin[d] - part.tensor->offset[d];
  return {at.data(), rank};
}

void copy_box(const MessagePart& from, const MessagePart& to, ThreadTeam& team) {
  At source, target;
  const BoxCopy box =
      BoxCopy::make(from.tensor->type.shape, place_of(from, source), to.tensor->type.shape,
                    place_of(to, target), to.message->extent);
  copy(box, from.data, to.data, size_of(to.tensor->type.dtype), team);
}

}  // namespace

void Lane::reset() {
  while (static_cast<int>(entries_.size()) < messages_)
    entries_.push_back(std::make_unique<Entry>());
  for (auto& entry : entries_) entry->state.store(0, std::memory_order_relaxed);
}

void Lane::abort() {
  for (auto& entry : entries_) {
    entry->state.fetch_or(kAborted);
    spin_wait_.wake(entry->state);
  }
}

void Lane::hand_over(int number, int side, const MessagePart& part, ThreadTeam& team) {
  Entry& entry = *entries_[number];
  entry.parts[side] = part;
  const std::uint32_t mine = 1u << side, others = 1u << (1 - side);
  const std::uint32_t before = entry.state.fetch_or(mine);
  if (before & kAborted) throw comm::Aborted("message aborted");
  if (!(before & others)) return;
  copy_box(entry.parts[0], entry.parts[1], team);
  entry.state.fetch_or(kDone);
  spin_wait_.wake(entry.state);
}

void Lane::wait(int number) {
  const std::uint32_t state = spin_wait_.wait(entries_[number]->state, [](std::uint32_t value) {
    return (value & (kDone | kAborted)) != 0;
  });
  if (!(state & kDone)) throw comm::Aborted("message aborted");
}

Lane& Lanes::between(int sender, int receiver, int number) {
  std::unique_ptr<Lane>& lane = lanes_[{sender, receiver, number}];
  if (!lane) lane = std::make_unique<Lane>(spin_wait_);
  return *lane;
}

void Lanes::reset() {
  for (auto& [key, lane] : lanes_) lane->reset();
}

void Lanes::abort() {
  for (auto& [key, lane] : lanes_) lane->abort();
}

}  // namespace alpa::runtime
