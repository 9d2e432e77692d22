// src/runtime/lanes.cc — messages between devices, of one process or of two
#include "lanes.h"

#include <array>
#include <deque>

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

/// Both devices are in this process.
class LocalLane final : public Lane {
 public:
  explicit LocalLane(SpinWait& spin_wait) : spin_wait_(spin_wait) {}

  void add_message(LaneSide side) override {
    if (side == LaneSide::sender) ++messages_;
  }
  void end_step() override {}  // both sides are over
  int reserve(const MessagePart&, int) override { return 0; }
  std::int64_t reserved_bytes() const override { return 0; }

  void reset() override {
    while (static_cast<int>(entries_.size()) < messages_)
      entries_.push_back(std::make_unique<Entry>());
    for (auto& entry : entries_) entry->state.store(0, std::memory_order_relaxed);
  }

  void abort() override {
    for (auto& entry : entries_) {
      entry->state.fetch_or(kAborted);
      spin_wait_.wake(entry->state);
    }
  }

  void hand_over(LaneSide side, int number, const MessagePart& part, int /*room*/,
                 ThreadTeam& team) override {
    Entry& entry = *entries_[number];
    const int index = static_cast<int>(side);
    entry.parts[index] = part;
    const std::uint32_t mine = 1u << index, others = 1u << (1 - index);
    const std::uint32_t before = entry.state.fetch_or(mine);
    if (before & kAborted) throw comm::Aborted();
    if (!(before & others)) return;
    copy_box(entry.parts[0], entry.parts[1], team);
    entry.state.fetch_or(kDone);
    spin_wait_.wake(entry.state);
  }

  bool done(int number) const override {
    const std::uint32_t state = entries_[number]->state.load(std::memory_order_acquire);
    if (!(state & kDone) && (state & kAborted)) throw comm::Aborted();
    return (state & kDone) != 0;
  }

  void wait(int number, ThreadTeam& /*team*/,
            std::optional<std::chrono::nanoseconds> limit) override {
    spin_wait_.wait(
        entries_[number]->state,
        [](std::uint32_t value) { return (value & (kDone | kAborted)) != 0; }, limit);
  }

 private:
  struct Entry {
    SpinWait::Word state{0};
    MessagePart parts[2];
  };
  static constexpr std::uint32_t kDone = 4, kAborted = 8;

  SpinWait& spin_wait_;
  int messages_ = 0;
  std::vector<std::unique_ptr<Entry>> entries_;
};

/// The other device is in another process: this object has one side only. Boxes that are contiguous
/// in their tensor are sent from there and received there, others are packed.
class RemoteLane final : public Lane {
 public:
  RemoteLane(processes::Courier& courier, int peer, int tag)
      : courier_(courier), peer_(peer), tag_(tag) {}

  void add_message(LaneSide /*side*/) override { entries_.emplace_back(); }

  int reserve(const MessagePart& part, int slots) override {
    const BoxCopy box = packing(part);
    const auto bytes = static_cast<std::size_t>(
        box.loops == 0 ? 0 : box.elements() * size_of(part.tensor->type.dtype));
    const int first = static_cast<int>(rooms_.size());
    for (int slot = 0; slot < slots; ++slot) rooms_.emplace_back(bytes);
    return first;
  }

  std::int64_t reserved_bytes() const override {
    std::int64_t bytes = 0;
    for (const auto& room : rooms_) bytes += std::ssize(room);
    return bytes;
  }

  void reset() override { done_ = handed_over_ = 0; }
  void abort() override {}  // the courier aborts what is under way

  void hand_over(LaneSide side, int number, const MessagePart& part, int room,
                 ThreadTeam& team) override {
    Entry& entry = entries_[number];
    entry.part = part;
    entry.room = &rooms_[room];
    const BoxCopy box = packing(part);
    const std::size_t size = size_of(part.tensor->type.dtype);
    const bool contiguous = box.loops == 0;
    const bool sends = side == LaneSide::sender;
    std::byte* const data = contiguous
                                ? part.data + box.source_begin * static_cast<std::int64_t>(size)
                                : entry.room->data();
    entry.unpacks = !sends && !contiguous;
    if (sends && !contiguous) copy(box, part.data, data, size, team);
    entry.request.set(peer_, tag_, data, box.elements() * static_cast<std::int64_t>(size), sends);
    courier_.post(entry.request);
    handed_over_ = number + 1;
  }

  /// Receives have been waited for.
  void end_step() override {
    for (; done_ < handed_over_; ++done_) courier_.wait(entries_[done_].request);
  }

  bool done(int number) const override { return done_ > number; }

  void wait(int number, ThreadTeam& team, std::optional<std::chrono::nanoseconds>) override {
    for (; done_ <= number; ++done_) {
      Entry& entry = entries_[done_];
      courier_.wait(entry.request);
      if (entry.unpacks)
        copy(unpacking(entry.part), entry.room->data(), entry.part.data,
             size_of(entry.part.tensor->type.dtype), team);
    }
  }

 private:
  struct Entry {
    processes::Request request;
    MessagePart part;
    std::vector<std::byte>* room = nullptr;
    bool unpacks = false;
  };

  static BoxCopy packing(const MessagePart& part) {
    At at, zero{};
    const Shape& extent = part.message->extent;
    return BoxCopy::make(part.tensor->type.shape, place_of(part, at), extent,
                         {zero.data(), extent.size()}, extent);
  }
  static BoxCopy unpacking(const MessagePart& part) {
    At at, zero{};
    const Shape& extent = part.message->extent;
    return BoxCopy::make(extent, {zero.data(), extent.size()}, part.tensor->type.shape,
                         place_of(part, at), extent);
  }

  processes::Courier& courier_;
  const int peer_, tag_;
  int done_ = 0;         ///< messages of the step that are known to be done
  int handed_over_ = 0;  ///< messages of the step so far
  std::deque<std::vector<std::byte>> rooms_;
  std::deque<Entry> entries_;  // end before their memory
};

}  // namespace

Lane& Lanes::between(int sender, int receiver, int number) {
  std::unique_ptr<Lane>& lane = lanes_[{sender, receiver, number}];
  if (lane) return *lane;
  if (placement_.here(sender) && placement_.here(receiver))
    lane = std::make_unique<LocalLane>(spin_wait_);
  else
    lane = std::make_unique<RemoteLane>(
        placement_.world()->courier(),
        placement_.rank_of(placement_.here(sender) ? receiver : sender),
        placement_.tag_of_lane(sender, receiver, number));
  return *lane;
}

std::int64_t Lanes::reserved_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [key, lane] : lanes_) bytes += lane->reserved_bytes();
  return bytes;
}

void Lanes::reset() {
  for (auto& [key, lane] : lanes_) lane->reset();
}

void Lanes::end_step() {
  for (auto& [key, lane] : lanes_) lane->end_step();
}

void Lanes::abort() {
  for (auto& [key, lane] : lanes_) lane->abort();
}

}  // namespace alpa::runtime
