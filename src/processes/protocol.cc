// src/processes/protocol.cc — signs of life, calls and failures, between processes of a launch
#include "src/processes/protocol.h"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "alpa/base/error.h"
#include "src/base/exception_text.h"
#include "src/processes/other_processes.h"
#include "src/processes/tags.h"

namespace alpa::processes {
namespace {

constexpr std::chrono::milliseconds kBeat{250};
/// For the word of the rank that knows where a lost process was.
constexpr std::chrono::milliseconds kWordOfNext{300};
/// Time from a signal that ends this process to its end: enough to hear of a lost process.
constexpr std::chrono::milliseconds kReason{600};
/// For the word of the rank that watches a stopped process, if that does not hang in MPI itself.
constexpr std::chrono::milliseconds kWordOfWatcher{500};
/// A process of this host that runs, but says nothing, gets so many times the silence of others.
constexpr int kSilenceOfRunning = 5;
/// Receives of messages from anyone that are always open.
constexpr int kOpenReceives = 8;

std::chrono::milliseconds to_milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time);
}

std::string seconds_text(std::chrono::nanoseconds time) {
  return fmt::format("{:.1f} s", static_cast<double>(to_milliseconds(time).count()) / 1000);
}

}  // namespace

/// All messages have this size.
struct Protocol::Message {
  enum class Kind : std::int32_t { beat, call, question, answer, failure, stop } kind = Kind::beat;
  std::int32_t from = 0, rank = 0, status = 0;
  std::int64_t number = 0;
  std::uint64_t hash = 0;
  std::int64_t length = 0;
  char text[984] = {};

  std::string_view given_text() const { return {text, static_cast<std::size_t>(length)}; }
  void set_text(std::string_view given) {
    length = static_cast<std::int64_t>(given.copy(text, sizeof text));
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
  last_call_ = number;
  last_call_text_ = text;
  outbox_.push_back(message);
  courier_->nudge();
}

std::int64_t Protocol::last_call() const {
  const std::lock_guard lock(mutex_);
  return last_call_;
}

void Protocol::set_report(const void* owner, std::function<StepReport()> report) {
  const std::lock_guard lock(mutex_);
  reporter_ = owner;
  report_ = std::move(report);
}

void Protocol::remove_report(const void* owner) {
  const std::lock_guard lock(mutex_);
  if (reporter_ != owner) return;
  reporter_ = nullptr;
  report_ = {};
}

std::optional<std::vector<StepReport>> Protocol::ask(const std::vector<int>& ranks) {
  constexpr std::chrono::milliseconds kLook{1};
  constexpr int kLooks = 500;  // then the question is asked again
  std::unique_lock lock(mutex_);
  const auto missing = [&] {
    return answers_.empty() ||
           std::any_of(ranks.begin(), ranks.end(), [&](int rank) { return !answers_[rank].whole; });
  };
  answers_.clear();
  for (int look = 0; missing(); ++look) {
    if (failed()) return std::nullopt;
    if (look % kLooks == 0) {
      answers_.assign(given_.size(), {});
      ++question_;
      for (const int rank : ranks)
        outbox_.push_back({.kind = Message::Kind::question, .rank = rank, .number = question_});
      courier_->nudge();
    }
    lock.unlock();
    ::usleep(std::chrono::microseconds(kLook).count());
    lock.lock();
  }
  std::vector<StepReport> reports;
  for (const int rank : ranks) reports.push_back(unpacked_report(answers_[rank].bytes));
  return reports;
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
  begun_at_ = Clock::now();
  lost_.resize(size());
  if (rank() == 0) calls_.emplace(size());
  for (int i = 0; i < kOpenReceives; ++i) {
    letters_.push_back(std::make_unique<Letter>());
    receive(*letters_.back());
  }
}

void Protocol::receive(Letter& letter) {
  letter.request.set(kAnyPeer, kControlTag, reinterpret_cast<std::byte*>(&letter.message),
                     sizeof letter.message, /*it_sends=*/false);
  courier_->start(letter.request);
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
  letter.request.set(peer, kControlTag, reinterpret_cast<std::byte*>(&letter.message),
                     sizeof letter.message, /*it_sends=*/true);
  courier_->start(letter.request);
}

void Protocol::send_all(const Message& message) {
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank() && !lost_[peer]) send(peer, message);
}

void Protocol::completed(Request& request) {
  const auto found = std::find_if(letters_.begin(), letters_.end(),
                                  [&](const auto& letter) { return &letter->request == &request; });
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
    case Message::Kind::beat: previous_is_at_ = message.given_text(); return;
    case Message::Kind::call:
      if (calls_) calls_->add(message.from, message.number, message.hash, message.given_text());
      return;
    case Message::Kind::question: return answer(message);
    case Message::Kind::answer: return take_answer(message);
    case Message::Kind::failure:
      return adopt(
          {std::string(message.given_text()), message.status, message.rank, message.number != 0},
          false);
    case Message::Kind::stop: stop_signal_ = message.status; return;
  }
}

/// Sends this process's report, in as many messages as it takes.
void Protocol::answer(const Message& question) {
  const std::string bytes = packed(own_report());
  for (std::size_t at = 0; at < bytes.size(); at += sizeof question.text) {
    Message part{.kind = Message::Kind::answer,
                 .from = rank(),
                 .status = static_cast<std::int32_t>(bytes.size()),
                 .number = question.number,
                 .hash = at};
    part.set_text(std::string_view(bytes).substr(at));
    question.from == rank() ? take_answer(part) : send(question.from, part);
  }
}

/// Parts arrive in order; one that does not fit is left out, and the question asked again.
void Protocol::take_answer(const Message& part) {
  const std::lock_guard lock(mutex_);
  if (part.number != question_) return;
  Answer& answer = answers_.at(part.from);
  if (part.hash == answer.bytes.size()) answer.bytes += part.given_text();
  answer.whole = static_cast<std::int32_t>(answer.bytes.size()) == part.status;
}

StepReport Protocol::own_report() const {
  const std::lock_guard lock(mutex_);
  StepReport report = report_ ? report_() : StepReport{};
  report.together = together_.load(std::memory_order_acquire);
  if (report.call == last_call_ && report_) return report;
  report.text = last_call_ == 0 ? "before its first call"
                                : fmt::format("in call {}, {}", last_call_, last_call_text_);
  return report;
}

void Protocol::adopt(Failure failure, bool tell) {
  if (failed()) return;
  if (tell) {
    Message message{.kind = Message::Kind::failure,
                    .rank = failure.rank,
                    .status = failure.status,
                    .number = failure.names_ranks};
    message.set_text(failure.text);
    send_all(message);
  }
  if (failure.status == kTryAgain && failure.rank >= 0) lost_[failure.rank] = true;
  const auto speaker = std::find(lost_.begin(), lost_.end(), false) - lost_.begin();
  const bool speaks = speaker == rank();
  {
    const std::lock_guard lock(mutex_);
    failure_ = failure;
  }
  speaks_.store(speaks, std::memory_order_release);
  failed_.store(true, std::memory_order_release);
  failed_at_ = Clock::now();
  if (failure.status == kTryAgain) say();
  courier_->stop();
}

/// Messages to a lost process may fail before it is known to be lost.
void Protocol::wire_failed(const std::exception_ptr& thrown) {
  if (failed()) return;
  for (int look = 0; look < 20 && !processes_.empty(); ++look) {
    look_for_the_dead(Clock::now() + kWordOfNext);
    if (failed()) return;
    ::usleep(10'000);
  }
  const std::string self =
      processes_.empty() ? fmt::format("rank {}", rank()) : to_string(processes_[rank()], size());
  adopt({fmt::format("{}: messages between processes failed: {}", self, text_of(thrown)), kTryAgain,
         rank(), true},
        false);
  if (options_.announce) options_.announce(*failure());
}

void Protocol::tick(Clock::time_point now) {
  const bool leaving = leaving_;  // before the outbox, which has all calls made before
  send_outbox();
  std::optional<Failure> wanted;
  int noted = 0;
  {
    const std::lock_guard lock(mutex_);
    wanted = std::exchange(wanted_, std::nullopt);
    if (noted_signal_ && !stop_requested()) noted = noted_signal_();
    if (!given_.empty() && processes_.empty()) {
      processes_ = given_;
      last_heard_ = last_tick_ = now;
    }
  }
  if (noted != 0) request_stop(noted);  // told in the next tick
  if (wanted) adopt(*wanted, true);
  if (!failed() && processes_.empty()) look_for_the_late(now);
  if (!failed() && !processes_.empty()) {
    if (now - last_beat_ >= kBeat) beat(), last_beat_ = now;
    look_for_signal(now);
    look_for_divergence(now);
    look_for_the_dead(now);
    look_for_the_silent(now);
  }
  last_tick_ = now;
  if (failed()) return end_by_force(now);
  if (leaving && !left_ && !courier_->broken() && all_calls_are_known(now))
    left_ = courier_->wire().leave();
}

void Protocol::send_outbox() {
  std::deque<Message> outbox;
  {
    const std::lock_guard lock(mutex_);
    outbox.swap(outbox_);
  }
  for (Message& message : outbox) {
    message.from = rank();
    switch (message.kind) {
      case Message::Kind::stop:
        stop_signal_ = message.status;
        send_all(message);
        break;
      case Message::Kind::question:
        message.rank == rank() ? answer(message) : send(message.rank, message);
        break;
      default: rank() == 0 ? handle(message) : send(0, message);
    }
  }
}

bool Protocol::over() { return leaving_ && (left_ || (failed() && !stays_)); }

/// Fails the launch if processes are late to join: before they know each other there are no other
/// checks.
void Protocol::look_for_the_late(Clock::time_point now) {
  if (now - begun_at_ <= options_.joining) return;
  adopt({fmt::format("rank {} of {} waited {} for the others to join the launch: one of them is "
                     "stopped, or cut off; start the program again",
                     rank(), size(), seconds_text(options_.joining)),
         kTryAgain, -1, true},
        true);
}

void Protocol::look_for_divergence(Clock::time_point now) {
  if (!calls_) return;
  if (const std::optional<Failure> difference = calls_->difference(now)) adopt(*difference, true);
}

/// Rank 0 leaves when it has heard of the last calls of all: they may differ. A call may be lost
/// for good, so not later than that takes.
bool Protocol::all_calls_are_known(Clock::time_point now) {
  if (leaving_since_ == Clock::time_point{}) leaving_since_ = now;
  return !calls_ || calls_->all_made_by_all() || now - leaving_since_ > options_.silence;
}

/// The signal ends this process as if nobody had handled it, but not before others had the time to
/// say that one was lost.
void Protocol::look_for_signal(Clock::time_point now) {
  const int signal = options_.ending_signal ? options_.ending_signal->load() : 0;
  if (signal == 0 || failed()) return;
  if (signal_at_ == Clock::time_point{}) signal_at_ = now;
  if (now - signal_at_ < kReason) return;
  std::signal(signal, SIG_DFL);
  ::kill(::getpid(), signal);
}

/// Sends a heartbeat to the next rank. None while the last one is under way: that rank does not
/// listen.
void Protocol::beat() {
  if (beat_under_way_ || size() == 1) return;
  Message message{.kind = Message::Kind::beat};
  message.set_text(own_report().text);
  beat_under_way_ = true;
  send((rank() + 1) % size(), message);
}

/// Processes of this host that have ended. While this one leaves they may: they have left before.
/// When a signal ends this one they may have got it, too.
void Protocol::look_for_the_dead(Clock::time_point now) {
  if (ends_.empty()) {
    ends_.resize(size(), -1);
    dead_since_.resize(size());
    for (const Process& process : processes_)
      if (process.host == processes_[rank()].host && process.rank != rank() &&
          process.pid != processes_[rank()].pid)
        ends_[process.rank] = open_end_of(process.pid);
  }
  if (signal_at_ != Clock::time_point{} && now - signal_at_ > kReason / 2) return;
  for (int peer = 0; peer < size(); ++peer) {
    if (ends_[peer] < 0) continue;
    pollfd end{ends_[peer], POLLIN, 0};
    if (::poll(&end, 1, 0) <= 0 || !(end.revents & POLLIN)) continue;
    if (dead_since_[peer] == Clock::time_point{}) dead_since_[peer] = now;
    // The next rank knows where the dead one was; the others wait for its word.
    const Clock::duration patience = leaving_             ? options_.silence
                                     : peer == previous() ? Clock::duration{0}
                                                          : kWordOfNext;
    if (now - dead_since_[peer] >= patience)
      return lose(peer, "has ended without leaving the launch");
  }
}

/// The previous rank, from which nothing was heard. Time in which this process itself did not run
/// does not count. A process that is stopped while it puts a message into shared memory holds up
/// the one that awaits it: Open MPI looks for the rest of the message without end.
void Protocol::look_for_the_silent(Clock::time_point now) {
  if (size() == 1) return;
  const Clock::duration gap = now - last_tick_;
  if (gap > kBeat) last_heard_ += gap;
  const Clock::duration silence = now - last_heard_;
  if (silence <= options_.silence) return;
  const Process& peer = processes_[previous()];
  const bool here = ends_[peer.rank] >= 0;
  constexpr const char* kStopped = "has been stopped, by a signal or a debugger,";
  if (here && is_stopped(peer.pid))
    return lose(peer.rank, fmt::format("{} for {}", kStopped, seconds_text(silence)));
  if (here && silence > options_.silence + kWordOfWatcher)
    for (const Process& other : processes_)
      if (ends_[other.rank] >= 0 && is_stopped(other.pid))
        return lose(other.rank, fmt::format("{} and holds up rank {}, silent for {}", kStopped,
                                            peer.rank, seconds_text(silence)));
  if (!here || silence > kSilenceOfRunning * options_.silence)
    lose(peer.rank, fmt::format("has been silent for {}: {}", seconds_text(silence),
                                here ? "it runs, but gets no time, or hangs in MPI"
                                     : "it or its host is stopped, or cut off"));
}

void Protocol::lose(int rank, const std::string& how) {
  adopt({fmt::format("lost {}, which {}{}; start the program again, with --resume if it has "
                     "checkpoints",
                     to_string(processes_[rank], size()), how, where_is(rank)),
         kTryAgain, rank, true},
        true);
}

std::string Protocol::where_is(int rank) const {
  const int self = courier_->wire().rank(), size = courier_->wire().size();
  const bool known = rank == (self + size - 1) % size && !previous_is_at_.empty();
  return known ? fmt::format("; it was last {}", previous_is_at_) : "";
}

void Protocol::say() {
  if (speaks() && !said_.exchange(true) && options_.announce) options_.announce(*failure());
}

/// Ends processes that do not end by themselves. The speaker does it; if it is stuck, the others
/// do.
void Protocol::end_by_force(Clock::time_point now) {
  constexpr std::chrono::milliseconds kForSpeaker{500};
  const Clock::duration over = now - failed_at_ - options_.grace;
  const bool grace = options_.grace.count() > 0;
  const bool stuck = grace && over >= kForSpeaker;
  const bool late = stuck || (grace && speaks() && over >= Clock::duration{});
  if (stuck) speaks_ = true;
  if (late) say();
  if ((ending_ || late) && !courier_->broken()) courier_->wire().abort(failure()->status);
}

}  // namespace alpa::processes
