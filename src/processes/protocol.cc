// src/processes/protocol.cc — signs of life, calls and failures, between all processes of a launch
#include "src/processes/protocol.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "alpa/base/error.h"
#include "src/base/exception_text.h"
#include "src/processes/tags.h"

namespace alpa::processes {
namespace {

constexpr std::chrono::milliseconds kBeat{250};
constexpr std::chrono::milliseconds kWordOfNext{200};
/// Receives of messages from anyone that are always open.
constexpr int kOpenReceives = 8;

std::chrono::milliseconds to_milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time);
}

/// A descriptor that can be read once the process has ended; -1 if there is none to be had.
int open_end_of(std::int64_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0));
}

}  // namespace

/// All messages have this size.
struct Protocol::Message {
  enum class Kind : std::int32_t { beat, call, failure, stop } kind = Kind::beat;
  std::int32_t from = 0, rank = 0, status = 0;
  std::int64_t number = 0;
  std::uint64_t hash = 0;
  char text[992] = {};

  void set_text(std::string_view given) {
    const std::size_t length = std::min(given.size(), sizeof text - 1);
    std::memcpy(text, given.data(), length);
    text[length] = 0;
  }
};

struct Protocol::Letter {
  Message message;
  Request request;
  bool beat = false;
};

std::string to_string(const Process& process, int size) {
  return fmt::format("rank {} of {} (host {}, process {})", process.rank, size, process.host_name,
                     process.pid);
}

Protocol::Protocol(ProtocolOptions options) : options_(std::move(options)) {}

Protocol::~Protocol() {
  for (const int end : ends_)
    if (end >= 0) ::close(end);
}

void Protocol::watch(std::vector<Process> processes) {
  const std::lock_guard lock(mutex_);
  given_ = std::move(processes);
}

void Protocol::call(std::int64_t number, std::uint64_t hash, std::string_view text) {
  Message message{.kind = Message::Kind::call, .number = number, .hash = hash};
  message.set_text(text);
  const std::lock_guard lock(mutex_);
  outbox_.push_back(message);
  courier_->nudge();
}

void Protocol::set_whereabouts(std::function<std::string()> whereabouts) {
  const std::lock_guard lock(mutex_);
  whereabouts_ = std::move(whereabouts);
}

void Protocol::fail(Failure failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!wanted_) wanted_ = std::move(failure);
  }
  courier_->nudge();
}

std::optional<Failure> Protocol::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Protocol::request_stop(int signal) {
  Message message{.kind = Message::Kind::stop, .status = signal};
  const std::lock_guard lock(mutex_);
  outbox_.push_back(message);
  courier_->nudge();
}

void Protocol::watch_signal(std::function<int()> noted) {
  const std::lock_guard lock(mutex_);
  noted_signal_ = std::move(noted);
}

void Protocol::end_all() {
  ending_ = true;
  courier_->nudge();
}

void Protocol::leave() {
  leaving_ = true;
  courier_->nudge();
}

// ---- on the progress thread

void Protocol::begin(Courier& courier) {
  courier_ = &courier;
  lost_.resize(size());
  for (int i = 0; i < kOpenReceives; ++i) {
    letters_.push_back(std::make_unique<Letter>());
    receive(*letters_.back());
  }
}

void Protocol::receive(Letter& letter) {
  Request& request = letter.request;
  request.peer = kAnyPeer;
  request.tag = kControlTag;
  request.data = reinterpret_cast<std::byte*>(&letter.message);
  request.bytes = sizeof letter.message;
  request.sends = false;
  courier_->start(request);
}

void Protocol::send(int peer, const Message& message) {
  if (courier_->broken()) return;
  if (idle_letters_.empty()) {
    letters_.push_back(std::make_unique<Letter>());
    idle_letters_.push_back(letters_.back().get());
  }
  Letter& letter = *idle_letters_.back();
  idle_letters_.pop_back();
  letter.message = message;
  letter.message.from = rank();
  letter.beat = message.kind == Message::Kind::beat;
  Request& request = letter.request;
  request.peer = peer;
  request.tag = kControlTag;
  request.data = reinterpret_cast<std::byte*>(&letter.message);
  request.bytes = sizeof letter.message;
  request.sends = true;
  courier_->start(request);
}

void Protocol::send_all(const Message& message) {
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank() && !lost_[peer]) send(peer, message);
}

void Protocol::completed(Request& request) {
  const auto found = std::find_if(letters_.begin(), letters_.end(), [&](const auto& letter) {
    return &letter->request == &request;
  });
  Letter& letter = **found;
  if (!request.sends) {
    handle(letter.message);
    return receive(letter);
  }
  if (letter.beat) beat_under_way_ = false;
  idle_letters_.push_back(&letter);
}

void Protocol::handle(const Message& message) {
  if (message.from == previous()) last_heard_ = Clock::now();
  switch (message.kind) {
    case Message::Kind::beat: previous_is_at_ = message.text; return;
    case Message::Kind::call: return compare(message);
    case Message::Kind::failure:
      return adopt({message.text, message.status, message.rank}, false);
    case Message::Kind::stop: stop_signal_ = message.status; return;
  }
}

/// Rank 0: whether all ranks make the same call.
void Protocol::compare(const Message& call) {
  const auto [entry, first] = calls_.try_emplace(
      call.number, Call{call.from, 0, call.hash, call.text});
  Call& known = entry->second;
  if (!first && known.hash != call.hash) {
    const bool swapped = call.from < known.rank;
    const int low = swapped ? call.from : known.rank, high = swapped ? known.rank : call.from;
    const std::string here = swapped ? call.text : known.text,
                      there = swapped ? known.text : call.text;
    return adopt({fmt::format("the processes went different ways: call {} of rank {} is {}, that "
                              "of rank {} is {}; every process must run the same program with the "
                              "same flags and data, and make the same calls in the same order",
                              call.number, low, here, high, there),
                  2, high},
                 true);
  }
  if (++known.count == size()) calls_.erase(entry);
}

void Protocol::adopt(Failure failure, bool tell) {
  if (failed()) return;
  if (tell) {
    Message message{
        .kind = Message::Kind::failure, .rank = failure.rank, .status = failure.status};
    message.set_text(failure.text);
    send_all(message);
  }
  if (failure.status == kTryAgain) lost_[failure.rank] = true;
  const auto speaker = std::find(lost_.begin(), lost_.end(), false) - lost_.begin();
  const bool speaks = speaker == rank();
  {
    const std::lock_guard lock(mutex_);
    failure_ = failure;
  }
  speaks_.store(speaks, std::memory_order_release);
  failed_.store(true, std::memory_order_release);
  failed_at_ = Clock::now();
  if (speaks && options_.announce) options_.announce(failure);
  courier_->stop();
}

void Protocol::wire_failed(const std::exception_ptr& thrown) {
  adopt({fmt::format("rank {}: messages between processes failed: {}", rank(), text_of(thrown)),
         kTryAgain, rank()},
        false);
}

void Protocol::tick(Clock::time_point now) {
  std::deque<Message> outbox;
  std::optional<Failure> wanted;
  int noted = 0;
  {
    const std::lock_guard lock(mutex_);
    outbox.swap(outbox_);
    wanted = std::exchange(wanted_, std::nullopt);
    if (noted_signal_ && !stop_requested()) noted = noted_signal_();
    if (!given_.empty() && processes_.empty()) {
      processes_ = given_;
      last_heard_ = last_tick_ = now;
    }
  }
  for (Message& message : outbox) {
    message.from = rank();
    if (message.kind == Message::Kind::stop) {
      stop_signal_ = message.status;
      send_all(message);
    } else if (rank() == 0) {
      compare(message);
    } else {
      send(0, message);
    }
  }
  if (noted != 0) request_stop(noted);  // told in the next tick
  if (wanted) adopt(*wanted, true);
  if (!failed() && !processes_.empty()) {
    if (now - last_beat_ >= kBeat) beat(), last_beat_ = now;
    look_for_the_dead(now);
    look_for_the_silent(now);
  }
  last_tick_ = now;
  if (failed()) return end_by_force(now);
  if (leaving_ && !left_ && outbox.empty() && !courier_->broken()) left_ = courier_->wire().leave();
}

bool Protocol::over() { return leaving_ && (left_ || failed()); }

/// To the next rank. None if the last one is still under way: that rank does not listen.
void Protocol::beat() {
  if (beat_under_way_ || size() == 1) return;
  std::function<std::string()> whereabouts;
  {
    const std::lock_guard lock(mutex_);
    whereabouts = whereabouts_;
  }
  Message message{.kind = Message::Kind::beat};
  message.set_text(whereabouts ? whereabouts() : "");
  beat_under_way_ = true;
  send((rank() + 1) % size(), message);
}

/// Processes of this host that have ended. While this one leaves they may: they have left before.
void Protocol::look_for_the_dead(Clock::time_point now) {
  if (ends_.empty()) {
    ends_.resize(size(), -1);
    dead_since_.resize(size());
    for (const Process& process : processes_)
      if (process.host == processes_[rank()].host && process.rank != rank() &&
          process.pid != processes_[rank()].pid)
        ends_[process.rank] = open_end_of(process.pid);
  }
  for (int peer = 0; peer < size(); ++peer) {
    if (ends_[peer] < 0) continue;
    pollfd end{ends_[peer], POLLIN, 0};
    if (::poll(&end, 1, 0) <= 0 || !(end.revents & POLLIN)) continue;
    if (dead_since_[peer] == Clock::time_point{}) dead_since_[peer] = now;
    // The next rank knows where the dead one was; the others wait for its word.
    const Clock::duration patience = leaving_                ? options_.silence
                                     : peer == previous() ? Clock::duration{0}
                                                             : kWordOfNext;
    if (now - dead_since_[peer] >= patience)
      return lose(peer, "has ended without leaving the launch");
  }
}

/// The previous rank, from which nothing was heard. Time in which this process itself did not run
/// does not count.
void Protocol::look_for_the_silent(Clock::time_point now) {
  if (size() == 1) return;
  const Clock::duration gap = now - last_tick_;
  if (gap > kBeat) last_heard_ += gap;
  if (now - last_heard_ > options_.silence)
    lose(previous(), fmt::format("has been silent for {:.1f} s: it is stopped, or cut off",
                                 static_cast<double>(to_milliseconds(now - last_heard_).count()) /
                                     1000));
}

void Protocol::lose(int rank, const std::string& how) {
  adopt({fmt::format("lost {}, which {}{}; start the program again, with --resume if it has "
                     "checkpoints",
                     to_string(processes_[rank], size()), how, where_is(rank)),
         kTryAgain, rank},
        true);
}

std::string Protocol::where_is(int rank) const {
  const int self = courier_->wire().rank(), size = courier_->wire().size();
  const bool known = rank == (self + size - 1) % size && !previous_is_at_.empty();
  return known ? fmt::format("; it was last at {}", previous_is_at_) : "";
}

/// Those who do not end by themselves.
void Protocol::end_by_force(Clock::time_point now) {
  const bool late = options_.grace.count() > 0 && now - failed_at_ >= options_.grace;
  if ((ending_ || late) && !courier_->broken()) courier_->wire().abort(failure()->status);
}

}  // namespace alpa::processes
