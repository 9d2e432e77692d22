#pragma once
/// Starts messages and tells those who wait when they are done. A thread of its own, the progress
/// thread, lets messages get on while other threads compute. A thread that waits does that work
/// itself meanwhile, since waking another one costs more than a short message. One thread at a time
/// calls the wire. Invariant: a request that was posted is either done or aborted one day. After
/// `stop` all are aborted, those posted later too.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "src/base/spin_wait.h"
#include "src/processes/wire.h"

namespace alpa::processes {

/// Thrown to those who wait for a message when the launch has failed (`World::failure` says why).
class Aborted : public std::runtime_error {
 public:
  Aborted() : std::runtime_error("the launch has failed") {}
};

/// One message. Its owner fills it in, posts it and waits; then it may be used again.
struct Request {
  Request() = default;
  /// Waits until the request is done or aborted: a courier points to it till then.
  ~Request();
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  /// Fills in an idle or finished request. Sends `data` if `sends`, else receives into it.
  void set(int its_peer, int its_tag, std::byte* its_data, std::int64_t its_bytes, bool it_sends) {
    peer = its_peer, tag = its_tag, data = its_data, bytes = its_bytes, sends = it_sends;
  }

  int peer = -1, tag = 0;
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
  bool sends = false;

  static constexpr std::uint32_t kIdle = 0, kPosted = 1, kDone = 2, kAborted = 3;
  SpinWait::Word state{kIdle};
  Request* next = nullptr;  ///< in the inbox
};

class Courier;

/// Work of a courier beside requests. Called on the courier's thread; `completed` on any thread
/// that makes progress.
class CourierTask {
 public:
  virtual ~CourierTask() = default;
  /// Called once, when the wire has been made.
  virtual void begin(Courier& courier) = 0;
  /// Called repeatedly afterwards, at least every `kTick`. May call the courier's `start`, `stop`
  /// and `wire`.
  virtual void tick(std::chrono::steady_clock::time_point now) = 0;
  /// A request that `start` was called with is done.
  virtual void completed(Request& request) = 0;
  /// The wire threw: the courier calls it no more, and has stopped.
  virtual void wire_failed(const std::exception_ptr& thrown) = 0;
  /// True if the courier's thread is to end. Called after each `tick`.
  virtual bool over() = 0;
};

class Courier {
 public:
  /// Longest time without a tick.
  static constexpr std::chrono::milliseconds kTick{50};

  /// Makes the wire on the new thread; throws what `make_wire` throws.
  Courier(std::function<std::unique_ptr<Wire>()> make_wire, CourierTask& task);
  /// Waits for the end of the thread, which its task decides.
  ~Courier();
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  /// Starts the message of an idle or finished request. Any thread; never waits. Requests that one
  /// thread posts are started in that order. `waits`: this thread will wait for it soon, so the
  /// progress thread need not be woken.
  void post(Request& request, bool waits = false) noexcept;
  /// Waits until a posted request is done. Throws Aborted if it was aborted.
  void wait(Request& request);
  /// The same, at most for about `limit`; false: it is not done yet.
  bool wait_for(Request& request, std::chrono::nanoseconds limit);
  /// Lets the thread look at its task at once.
  void nudge() noexcept;

  /// More threads than cores wait and compute on this host.
  void set_crowded(bool crowded) noexcept { crowded_.store(crowded, std::memory_order_relaxed); }

  // ---- for its task
  /// Throws what the wire throws; not to be used once that has failed.
  Wire& wire() { return *wire_; }
  bool broken() const { return broken_; }  ///< the wire has failed
  /// As `post`, for the courier's task; its `completed` is called when the request is done.
  void start(Request& request);
  /// Aborts all requests but those of the task, now and later. First waits, not for long, until
  /// what the task sends is out. Afterwards no message gets on: the memory that one would be read
  /// from or written to may be freed.
  void stop() noexcept;

 private:
  struct Active {
    Request* request = nullptr;
    bool of_task = false;
  };
  void run();
  void begin(Request& request, bool of_task);
  void send_out() noexcept;
  void break_off();
  void give_up() noexcept;
  bool advance();
  bool take_posted();
  bool take_completed();
  bool help(Request& request);
  bool idle(std::uint32_t seen, std::chrono::nanoseconds most);
  void finish(Request& request, std::uint32_t state);

  CourierTask& task_;
  std::unique_ptr<Wire> wire_;
  std::atomic<Request*> inbox_{nullptr};  ///< newest first
  SpinWait::Word posted_{0};              ///< changes with every post
  std::atomic<int> waiting_{0};           ///< threads in `wait`
  std::atomic<bool> crowded_{false};
  SpinWait spin_wait_{2}, inbox_wait_{2};
  std::mutex progress_;              // guards the wire, the task, and:
  std::vector<Active> active_;       ///< by ticket
  std::atomic<int> num_active_ = 0;  ///< without the task's
  bool stopped_ = false, broken_ = false;
  std::thread thread_;
};

}  // namespace alpa::processes
