// tests/support/memory_wire.cc — mailboxes, and the faults that are injected into them
#include "support/memory_wire.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "alpa/base/error.h"

namespace alpa::testing {
namespace {

using MemoryClock = std::chrono::steady_clock;

/// Longer messages stay with their sender until they are received; the limit of Open MPI's shared
/// memory, less its header.
constexpr std::int64_t kLongestCopied = 4000;
constexpr int kNoTicket = -1;

struct Parcel {
  int from = 0;
  std::int64_t bytes = 0;
  const std::byte* data = nullptr;  ///< the sender's, if it still waits
  std::vector<std::byte> copy = {};
  int ticket = kNoTicket;        ///< the sender's, if it still waits
  std::int64_t after_calls = 0;  ///< of the receiver's `completed`
  MemoryClock::time_point at = MemoryClock::time_point::min();
  bool behind_next = false;
};

struct AwaitedParcel {
  int peer = 0;
  std::int64_t bytes = 0;
  std::byte* data = nullptr;
  int ticket = kNoTicket;
};

/// Parcels and awaited parcels of one tag, each in the order of the calls.
struct TagBox {
  std::deque<Parcel> parcels;
  std::deque<AwaitedParcel> awaited;
};

struct MailboxOwner {
  std::map<int, TagBox> boxes;  ///< by tag
  std::set<int> changed;        ///< tags for which a parcel may be handed over
  std::deque<int> done;         ///< tickets to report
  std::vector<int> free_tickets;
  int tickets = 0;             ///< numbers in use or free
  std::int64_t started = 0;    ///< sends and receives
  std::int64_t completed = 0;  ///< calls that had something to look at
  MemberFate fate = MemberFate::runs;
  bool taken = false;
  bool left = false, gone = false;  ///< has called `leave`, and been told that all have
  bool forgotten = false;           ///< its memory may be gone
  std::atomic<bool> news{false};    ///< `done` or `changed` are not empty

  int take_ticket() {
    if (free_tickets.empty()) return tickets++;
    const int ticket = free_tickets.back();
    free_tickets.pop_back();
    return ticket;
  }
  bool is_readable() const { return fate == MemberFate::runs && !forgotten; }
  void finish(int ticket) {
    done.push_back(ticket);
    news.store(true, std::memory_order_release);
  }
};

}  // namespace

/// `mutex` guards all but `news`.
struct MemoryLaunch::State {
  explicit State(MemoryLaunchOptions given)
      : options(std::move(given)), members(static_cast<std::size_t>(options.size)) {}

  const MemoryLaunchOptions options;
  mutable std::mutex mutex;
  std::deque<MailboxOwner> members;
  std::optional<int> aborted;
  int left = 0;
  MemoryClock::time_point now;  ///< of the current look into a mailbox

  MailboxOwner& member(int rank) { return members.at(static_cast<std::size_t>(rank)); }

  void check(const MemoryCall& call) const {
    const bool any = !call.sends && call.peer == processes::kAnyPeer;
    invariant((any || (call.peer >= 0 && call.peer < options.size)) && call.tag >= 0 &&
                  call.tag <= options.max_tag && call.bytes >= 0,
              "process {} of {} {} {} bytes {} process {} with tag {} of at most {}", call.rank,
              options.size, call.sends ? "sends" : "awaits", call.bytes, call.sends ? "to" : "from",
              call.peer, call.tag, options.max_tag);
  }

  /// A new ticket for `call`, and its fault if the caller still does something.
  std::pair<int, std::optional<MemoryFault>> begin(MemoryCall call) {
    check(call);
    MailboxOwner& caller = member(call.rank);
    invariant(!caller.gone, "process {} has left and starts a message", call.rank);
    call.number = caller.started++;
    const int ticket = caller.take_ticket();
    if (aborted || caller.fate != MemberFate::runs) return {ticket, std::nullopt};
    const MemoryFault fault = options.fault ? options.fault(call) : MemoryFault{};
    if (fault.caller != MemberFate::runs) {
      set(call.rank, fault.caller);
      return {ticket, std::nullopt};
    }
    return {ticket, fault};
  }

  void send(const MemoryCall& call, int ticket, const std::byte* data, const MemoryFault& fault) {
    Parcel parcel{.from = call.rank, .bytes = call.bytes};
    if (fault.delivery == Delivery::never) return member(call.rank).finish(ticket);
    if (call.bytes <= kLongestCopied || fault.delivery == Delivery::twice) {
      parcel.copy.assign(data, data + call.bytes);
      member(call.rank).finish(ticket);
    } else {
      parcel.data = data;
      parcel.ticket = ticket;
    }
    parcel.after_calls = member(call.peer).completed + fault.delay_calls;
    if (fault.delay.count() > 0) parcel.at = MemoryClock::now() + fault.delay;
    parcel.behind_next = fault.delivery == Delivery::behind_next;
    if (fault.delivery == Delivery::twice) put(call.peer, call.tag, parcel);
    put(call.peer, call.tag, std::move(parcel));
  }

  void put(int to, int tag, Parcel parcel) {
    std::deque<Parcel>& parcels = member(to).boxes[tag].parcels;
    const auto held = std::find_if(parcels.begin(), parcels.end(), [&](const Parcel& other) {
      return other.behind_next && other.from == parcel.from;
    });
    if (held != parcels.end()) held->behind_next = false;
    parcels.insert(held, std::move(parcel));
    note_change(to, tag);
  }

  void note_change(int rank, int tag) {
    member(rank).changed.insert(tag);
    member(rank).news.store(true, std::memory_order_release);
  }

  /// Hands over what has arrived for `rank`. The time is read once: a parcel that is late for one
  /// receive must not be there for the next.
  void hand_over(int rank) {
    MailboxOwner& to = member(rank);
    now = MemoryClock::now();
    for (auto tag = to.changed.begin(); tag != to.changed.end();) {
      const auto box = to.boxes.find(*tag);
      const bool some_are_late = match(rank, *tag, box->second);
      if (box->second.parcels.empty() && box->second.awaited.empty()) to.boxes.erase(box);
      tag = some_are_late ? std::next(tag) : to.changed.erase(tag);
    }
  }

  /// True if parcels of `box` may become visible without a further call of their sender.
  bool match(int rank, int tag, TagBox& box) {
    bool late = false;
    for (auto awaited = box.awaited.begin(); awaited != box.awaited.end();) {
      const auto parcel = first_for(*awaited, member(rank), box, late);
      if (parcel == box.parcels.end()) {
        ++awaited;
        continue;
      }
      const std::pair<AwaitedParcel, Parcel> pair{*awaited, std::move(*parcel)};
      awaited = box.awaited.erase(awaited);
      box.parcels.erase(parcel);
      copy(rank, tag, pair.first, pair.second);
    }
    return late;
  }

  /// The first parcel that `awaited` fits, is there, and is not behind one that is not; of each
  /// sender's parcels, the first.
  std::deque<Parcel>::iterator first_for(const AwaitedParcel& awaited, const MailboxOwner& to,
                                         TagBox& box, bool& late) {
    std::vector<int> blocked;
    for (auto parcel = box.parcels.begin(); parcel != box.parcels.end(); ++parcel) {
      if (awaited.peer != processes::kAnyPeer && awaited.peer != parcel->from) continue;
      if (parcel->behind_next) continue;
      if (std::find(blocked.begin(), blocked.end(), parcel->from) != blocked.end()) continue;
      if (is_there(*parcel, to)) return parcel;
      late = true;
      blocked.push_back(parcel->from);
    }
    return box.parcels.end();
  }

  bool is_there(const Parcel& parcel, const MailboxOwner& to) {
    const bool waits = parcel.ticket != kNoTicket;
    return to.completed >= parcel.after_calls && parcel.at <= now &&
           (!waits || member(parcel.from).is_readable());
  }

  void copy(int rank, int tag, const AwaitedParcel& awaited, const Parcel& parcel) {
    if (parcel.ticket != kNoTicket) member(parcel.from).finish(parcel.ticket);
    invariant(parcel.bytes == awaited.bytes,
              "message with tag {}: process {} sent {} bytes, process {} awaits {}", tag,
              parcel.from, parcel.bytes, rank, awaited.bytes);
    const std::byte* const from = parcel.ticket == kNoTicket ? parcel.copy.data() : parcel.data;
    if (parcel.bytes > 0) std::memcpy(awaited.data, from, static_cast<std::size_t>(parcel.bytes));
    member(rank).finish(awaited.ticket);
  }

  /// Sets a process's fate. Memory that a process of another fate than `runs` pointed to is not
  /// accessed again.
  void set(int rank, MemberFate fate) {
    MailboxOwner& changed = member(rank);
    if (changed.fate != MemberFate::lost) changed.fate = fate;
  }
};

namespace {

class MemoryWire final : public processes::Wire {
 public:
  MemoryWire(std::shared_ptr<MemoryLaunch::State> state, int rank)
      : state_(std::move(state)), self_(state_->member(rank)), rank_(rank) {}

  ~MemoryWire() override {
    const std::lock_guard lock(state_->mutex);
    state_->set(rank_, MemberFate::lost);
  }

  int rank() const override { return rank_; }
  int size() const override { return state_->options.size; }
  int host() const override {
    const std::vector<int>& hosts = state_->options.hosts;
    return hosts.empty() ? 0 : hosts[static_cast<std::size_t>(rank_)];
  }
  int max_tag() const override { return state_->options.max_tag; }

  int send(int peer, int tag, const std::byte* data, std::int64_t bytes) override {
    const std::lock_guard lock(state_->mutex);
    const MemoryCall call{.rank = rank_, .sends = true, .peer = peer, .tag = tag, .bytes = bytes};
    const auto [ticket, fault] = state_->begin(call);
    if (fault) state_->send(call, ticket, data, *fault);
    return ticket;
  }

  int receive(int peer, int tag, std::byte* data, std::int64_t bytes) override {
    const std::lock_guard lock(state_->mutex);
    const auto [ticket, fault] =
        state_->begin({.rank = rank_, .peer = peer, .tag = tag, .bytes = bytes});
    if (!fault) return ticket;
    self_.boxes[tag].awaited.push_back({peer, bytes, data, ticket});
    state_->note_change(rank_, tag);
    return ticket;
  }

  int completed(std::span<int> tickets) override {
    if (!self_.news.load(std::memory_order_acquire)) return 0;
    const std::lock_guard lock(state_->mutex);
    if (state_->aborted || self_.fate != MemberFate::runs) return 0;
    ++self_.completed;
    state_->hand_over(rank_);
    const std::size_t count = std::min(tickets.size(), self_.done.size());
    const auto end = self_.done.begin() + static_cast<std::ptrdiff_t>(count);
    std::copy(self_.done.begin(), end, tickets.begin());
    self_.free_tickets.insert(self_.free_tickets.end(), self_.done.begin(), end);
    self_.done.erase(self_.done.begin(), end);
    self_.news.store(!self_.done.empty() || !self_.changed.empty(), std::memory_order_release);
    return static_cast<int>(count);
  }

  void forget_messages() noexcept override {
    const std::lock_guard lock(state_->mutex);
    self_.forgotten = true;
  }

  void abort(int status) noexcept override {
    const std::lock_guard lock(state_->mutex);
    if (self_.fate == MemberFate::runs && !state_->aborted) state_->aborted = status;
  }

  bool leave() override {
    const std::lock_guard lock(state_->mutex);
    if (state_->aborted || self_.fate != MemberFate::runs) return false;
    if (!std::exchange(self_.left, true)) ++state_->left;
    return self_.gone = state_->left == state_->options.size;
  }

 private:
  const std::shared_ptr<MemoryLaunch::State> state_;
  MailboxOwner& self_;
  const int rank_;
};

}  // namespace

MemoryLaunch::MemoryLaunch(MemoryLaunchOptions options) {
  invariant(options.size > 0 && (options.hosts.empty() ||
                                 options.hosts.size() == static_cast<std::size_t>(options.size)),
            "a launch of {} processes with {} hosts", options.size, options.hosts.size());
  state_ = std::make_shared<State>(std::move(options));
}

std::unique_ptr<processes::Wire> MemoryLaunch::wire(int rank) {
  const std::lock_guard lock(state_->mutex);
  invariant(!std::exchange(state_->member(rank).taken, true), "process {} has a wire already",
            rank);
  return std::make_unique<MemoryWire>(state_, rank);
}

void MemoryLaunch::set(int rank, MemberFate fate) {
  const std::lock_guard lock(state_->mutex);
  state_->set(rank, fate);
}

std::optional<int> MemoryLaunch::aborted() const {
  const std::lock_guard lock(state_->mutex);
  return state_->aborted;
}

}  // namespace alpa::testing
