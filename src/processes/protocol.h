#pragma once
/// What the processes of a launch tell each other beside data, on the progress thread: that they
/// are alive and where they are (to the next rank, around a ring), which calls of the library they
/// make (to rank 0, which compares them), and that the launch has failed (to all). Thread rule:
/// public functions may be called by any thread unless a comment says otherwise.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/processes/courier.h"

namespace alpa::processes {

/// Exit status of a program that lost a process: a new try may succeed (EX_TEMPFAIL).
inline constexpr int kTryAgain = 75;

/// Why a launch has failed.
struct Failure {
  std::string text;
  int status = 2;  ///< exit status: 2 user's mistake, 3 bug, kTryAgain: a process was lost
  int rank = 0;    ///< that failed first, or was lost
};

/// A process of a launch.
struct Process {
  int rank = 0, host = 0;  ///< hosts are numbered by their lowest rank
  std::string host_name;
  std::int64_t pid = 0;
  std::vector<int> cores;  ///< that it may use
};

/// "rank 3 of 8 (host n2, process 4711)".
std::string to_string(const Process& process, int size);

struct ProtocolOptions {
  /// without a sign of life after which a process counts as lost
  std::chrono::milliseconds silence{2000};
  /// from a failure to the end of all processes by force; zero: never
  std::chrono::milliseconds grace{0};
  /// Called once, on the progress thread, in the process that speaks for all: rank 0, or the lowest
  /// one that is left.
  std::function<void(const Failure&)> announce = {};
};

class Protocol final : public CourierTask {
 public:
  explicit Protocol(ProtocolOptions options);
  ~Protocol() override;

  /// Begins to watch them. All processes of the launch, by rank.
  void watch(std::vector<Process> processes);

  /// Call number `number` of this process, from 1, in words. Rank 0 compares the calls of all
  /// ranks. `hash`: of all that must be equal, the words too.
  void call(std::int64_t number, std::uint64_t hash, std::string_view text);
  /// Where this process is, for the others, in words. Called on the progress thread; empty: removes
  /// it.
  void set_whereabouts(std::function<std::string()> whereabouts);
  /// Fails the launch, unless it has failed before: all processes learn it.
  void fail(Failure failure);
  std::optional<Failure> failure() const;
  /// Whether this process says for all why the launch has failed: the lowest rank that is left.
  bool speaks() const { return speaks_.load(std::memory_order_acquire); }
  /// Ends all processes of a failed launch, this one too, soon.
  void end_all();
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  /// Asks every process to stop at the next opportunity (SIGTERM at one of them).
  void request_stop(int signal);
  int stop_requested() const { return stop_signal_.load(std::memory_order_relaxed); }
  /// Asked again and again, on the progress thread: the signal by which this process is to stop; 0:
  /// none. The first one is as `request_stop`. Empty: it is asked no more when this returns.
  void watch_signal(std::function<int()> noted);

  /// The courier's thread ends: at once if the launch has failed, else when all have left.
  void leave();

  // ---- on the progress thread
  void begin(Courier& courier) override;
  void tick(std::chrono::steady_clock::time_point now) override;
  void completed(Request& request) override;
  void wire_failed(const std::exception_ptr& thrown) override;
  bool over() override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Message;
  struct Letter;  ///< a message and its request
  struct Call {
    int rank = 0, count = 0;
    std::uint64_t hash = 0;
    std::string text;
  };
  int rank() { return courier_->wire().rank(); }
  int size() { return courier_->wire().size(); }
  void send(int peer, const Message& message);
  void send_all(const Message& message);
  void receive(Letter& letter);
  void handle(const Message& message);
  void compare(const Message& call);
  void adopt(Failure failure, bool tell);
  void beat();
  void look_for_the_dead(Clock::time_point now);
  void look_for_the_silent(Clock::time_point now);
  void lose(int rank, const std::string& how);
  void end_by_force(Clock::time_point now);
  std::string where_is(int rank) const;
  int previous() { return (rank() + size() - 1) % size(); }

  const ProtocolOptions options_;
  Courier* courier_ = nullptr;
  mutable std::mutex mutex_;                  // guards what other threads give:
  std::deque<Message> outbox_;                ///< to rank 0, or to all
  std::optional<Failure> wanted_, failure_;
  std::vector<Process> given_;
  std::function<std::string()> whereabouts_;
  std::function<int()> noted_signal_;
  std::atomic<bool> failed_{false}, speaks_{false}, leaving_{false}, ending_{false};
  std::atomic<int> stop_signal_{0};
  // of the progress thread:
  std::vector<Process> processes_;
  std::vector<int> ends_;        ///< per process of this host, a descriptor that tells of its end
  std::vector<Clock::time_point> dead_since_;
  std::map<std::int64_t, Call> calls_;  ///< rank 0: those not yet made by all
  std::vector<std::unique_ptr<Letter>> letters_;
  std::vector<Letter*> idle_letters_;
  bool beat_under_way_ = false;
  Clock::time_point last_beat_{}, last_tick_{}, last_heard_{}, failed_at_{};
  std::string previous_is_at_;   ///< of the previous rank, by its last beat
  std::vector<bool> lost_;
  bool left_ = false;
};

}  // namespace alpa::processes
