// src/processes/courier.cc — the thread that makes all calls of a wire
#include "src/processes/courier.h"

#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <future>
#include <utility>

#include "src/base/start_threads.h"

namespace alpa::processes {
namespace {

using Clock = std::chrono::steady_clock;

/// Looks at the wire without success after which a waiting thread leaves that to the progress
/// thread, and sleeps. On a crowded host others need the core: soon.
constexpr int kLooksCrowded = 30, kLooksQuiet = 4000;
/// Between two of them other threads of the process may need the core, too.
constexpr int kLooksPerYield = 8;
constexpr std::chrono::microseconds kDestructorPause{50};
/// Between two looks of the progress thread: longer and longer while nothing happens, since each
/// costs as much as a short message.
constexpr std::chrono::microseconds kShortNap{20}, kLongNap{160};
/// The same, while a waiting thread looks.
constexpr std::chrono::microseconds kHelpedNap{1000};
/// Longest time without a tick while waiting threads poll. Then the progress thread waits for its
/// turn, because other processes must hear that this one lives.
constexpr std::chrono::milliseconds kMostBetweenTicks{100};

}  // namespace

Courier::Courier(std::function<std::unique_ptr<Wire>()> make_wire, CourierTask& task)
    : task_(task) {
  std::promise<void> made;
  std::future<void> ready = made.get_future();
  std::vector<std::thread> threads;
  start_threads(
      threads, 1, "messages between processes",
      [this, make_wire = std::move(make_wire), &made](int) {
        try {
          wire_ = make_wire();
          {
            const std::lock_guard lock(progress_);
            task_.begin(*this);
          }
        } catch (...) {
          give_up();
          return made.set_exception(std::current_exception());
        }
        made.set_value();
        run();
      },
      [] {});
  thread_ = std::move(threads.front());
  try {
    ready.get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

Request::~Request() {
  while (state.load() == kPosted) ::usleep(kDestructorPause.count());
}

Courier::~Courier() { thread_.join(); }

void Courier::post(Request& request, bool waits) noexcept {
  request.state.store(Request::kPosted, std::memory_order_relaxed);
  request.next = inbox_.load(std::memory_order_relaxed);
  while (!inbox_.compare_exchange_weak(request.next, &request)) {
  }
  if (!waits) return nudge();
  const std::unique_lock lock(progress_, std::try_to_lock);
  lock ? static_cast<void>(take_posted()) : nudge();
}

void Courier::nudge() noexcept {
  ++posted_;
  inbox_wait_.wake(posted_);
}

void Courier::wait(Request& request) {
  ++waiting_;
  if (!help(request))
    spin_wait_.wait(request.state, [](std::uint32_t value) { return value != Request::kPosted; });
  if (--waiting_ > 0) nudge();  // the progress thread goes on
  if (request.state.load() == Request::kAborted) throw Aborted();
}

bool Courier::wait_for(Request& request, std::chrono::nanoseconds limit) {
  ++waiting_;
  const bool done =
      help(request) || spin_wait_.wait_for(request.state, limit, [](std::uint32_t value) {
        return value != Request::kPosted;
      });
  if (--waiting_ > 0) nudge();  // the progress thread goes on
  if (request.state.load() == Request::kAborted) throw Aborted();
  return done;
}

/// Makes progress until the request is done. False: another thread does, or it takes long.
bool Courier::help(Request& request) {
  const auto over = [&] { return request.state.load() != Request::kPosted; };
  if (over()) return true;
  std::unique_lock lock(progress_, std::try_to_lock);
  if (!lock) return false;
  const bool crowded = crowded_.load(std::memory_order_relaxed);
  const int most = crowded ? kLooksCrowded : kLooksQuiet;
  for (int fruitless = 0; fruitless < most; ++fruitless) {
    if (advance()) fruitless = 0;
    if (over()) return true;
    if (crowded || fruitless % kLooksPerYield == kLooksPerYield - 1) ::sched_yield();
  }
  lock.unlock();
  nudge();  // the progress thread goes on
  return false;
}

void Courier::start(Request& request) {
  request.state.store(Request::kPosted, std::memory_order_relaxed);
  begin(request, true);
}

void Courier::stop() noexcept {
  if (std::exchange(stopped_, true)) return;
  send_out();
  wire_->forget_messages();  // before their owners wake
  for (Active& active : active_)
    if (active.request && !active.of_task) {
      finish(*std::exchange(active.request, nullptr), Request::kAborted);
      --num_active_;
    }
}

/// Until the task's sends are done.
void Courier::send_out() noexcept {
  constexpr std::chrono::milliseconds kMost{100};
  const Clock::time_point begin = Clock::now();
  const auto waits = [&] {
    return std::any_of(active_.begin(), active_.end(), [](const Active& active) {
      return active.request && active.of_task && active.request->sends;
    });
  };
  try {
    while (!broken_ && waits() && Clock::now() - begin < kMost)
      if (!take_completed()) ::sched_yield();
  } catch (...) {
    broken_ = true;  // the launch has failed already
  }
}

void Courier::finish(Request& request, std::uint32_t state) {
  request.state.store(state);
  spin_wait_.wake(request.state);
}

void Courier::begin(Request& request, bool of_task) {
  const int ticket = request.sends
                         ? wire_->send(request.peer, request.tag, request.data, request.bytes)
                         : wire_->receive(request.peer, request.tag, request.data, request.bytes);
  if (static_cast<int>(active_.size()) <= ticket) active_.resize(ticket + 1);
  active_[ticket] = {&request, of_task};
  if (!of_task) ++num_active_;
}

/// Starts what was posted, the oldest first.
bool Courier::take_posted() {
  Request* newest = inbox_.exchange(nullptr);
  Request* oldest = nullptr;
  while (newest) {
    Request* const next = std::exchange(newest->next, oldest);
    oldest = std::exchange(newest, next);
  }
  const bool any = oldest != nullptr;
  while (oldest) {
    Request& request = *std::exchange(oldest, oldest->next);  // may be gone once it is finished
    try {
      stopped_ ? finish(request, Request::kAborted) : begin(request, false);
    } catch (...) {
      finish(request, Request::kAborted);
      break_off();
    }
  }
  return any;
}

bool Courier::take_completed() {
  std::array<int, 64> tickets;
  std::array<Active, 64> done;
  const int count = wire_->completed(tickets);
  for (int i = 0; i < count; ++i) done[i] = std::exchange(active_[tickets[i]], {});
  for (int i = 0; i < count; ++i) {  // these may start messages with the same tickets
    const Active& active = done[i];
    if (!active.request) continue;  // aborted before
    if (active.of_task) {
      active.request->state.store(Request::kDone, std::memory_order_relaxed);
      task_.completed(*active.request);
    } else {
      --num_active_;
      finish(*active.request, Request::kDone);
    }
  }
  return count > 0;
}

/// Starts what was posted and takes what is completed; whether there was any.
bool Courier::advance() {
  bool posted = false, completed = false;
  try {
    posted = take_posted();
    completed = !broken_ && !stopped_ && take_completed();
  } catch (...) {
    break_off();
  }
  return posted || completed;
}

void Courier::run() {
  ::prctl(PR_SET_TIMERSLACK, 1000UL);  // naps are short
  Clock::time_point last_tick{};
  std::chrono::microseconds nap = kShortNap;
  while (true) {
    const std::uint32_t seen = posted_.load();
    std::unique_lock lock(progress_, std::try_to_lock);
    if (!lock && Clock::now() - last_tick < kMostBetweenTicks) {
      idle(seen, kHelpedNap);
      continue;
    }
    if (!lock) lock.lock();
    const bool any = advance();
    const Clock::time_point now = Clock::now();
    if (any || num_active_ == 0 || now - last_tick >= kTick / 4) {
      last_tick = now;
      try {
        task_.tick(now);
      } catch (...) {
        break_off();
      }
      if (task_.over()) return give_up();
    }
    lock.unlock();
    nap =
        any || idle(seen, num_active_ > 0 ? nap : kTick) ? kShortNap : std::min(2 * nap, kLongNap);
  }
}

/// Aborts all requests under way: the wire will not complete them any more.
void Courier::give_up() noexcept {
  for (Active& active : active_)
    if (Request* const request = std::exchange(active, {}).request)
      finish(*request, Request::kAborted);
}

void Courier::break_off() {
  broken_ = true;
  stop();
  task_.wire_failed(std::current_exception());
}

/// Sleeps until something is posted, at most for so long; whether something was.
bool Courier::idle(std::uint32_t seen, std::chrono::nanoseconds most) {
  return inbox_wait_.wait_for(posted_, most,
                              [seen](std::uint32_t posted) { return posted != seen; });
}

}  // namespace alpa::processes
