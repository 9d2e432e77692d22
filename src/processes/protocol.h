#pragma once
/// Control messages between the processes of a launch, on the progress thread: heartbeats and
/// positions (to the next rank, around a ring), calls of the library (to rank 0, which compares
/// them), progress of the devices (to the rank that asks), and failure of the launch (to all).
/// Thread rule: public functions may be called by any thread unless a comment says otherwise.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/processes/calls.h"
#include "src/processes/courier.h"
#include "src/processes/failure.h"
#include "src/processes/progress.h"

namespace alpa::processes {

/// A process of a launch.
struct Process {
  int rank = 0, host = 0;  ///< hosts are numbered by their lowest rank
  std::string host_name;
  std::int64_t pid = 0;
  std::vector<int> cores;  ///< that it may use
  int offered_cores = 1;   ///< that it could use, if the launcher bound it to none
};

/// "rank 3 of 8 (host n2, process 4711)".
std::string to_string(const Process& process, int size);

struct ProtocolOptions {
  /// without a sign of life after which a process counts as lost
  std::chrono::milliseconds silence{2000};
  /// from the first message to the last of those with which all learn of each other
  std::chrono::milliseconds joining{60000};
  /// from a failure to the end of all processes by force; zero: never
  std::chrono::milliseconds grace{0};
  /// Called once, on the progress thread, in the process that speaks for all: rank 0, or the lowest
  /// one that is left. At once if a process was lost, else when `grace` is over.
  std::function<void(const Failure&)> announce = {};
  /// A signal that ends this process unless it is 0: set by its handler. A launcher that lost a
  /// process sends it to the others, which first find out why.
  const std::atomic<int>* ending_signal = nullptr;
};

class Protocol final : public CourierTask {
 public:
  explicit Protocol(ProtocolOptions options);
  ~Protocol() override;

  /// Begins to watch them. All processes of the launch, by rank.
  void watch(std::vector<Process> processes);

  /// Reports call number `number` of this process, from 1, in words. Rank 0 compares the calls of
  /// all ranks. `hash` covers everything that must be equal on all ranks, `text` included.
  void call(std::int64_t number, std::uint64_t hash, std::string_view text);
  std::int64_t last_call() const;  ///< its number; 0: none
  /// Sets the number of finished messages outside of steps, for reports.
  void set_together(std::int64_t number) { together_.store(number, std::memory_order_release); }
  /// Sets the function that tells other ranks where this process is in its steps. `report` is
  /// called on the progress thread until `owner` calls `remove_report`, or another calls this.
  void set_report(const void* owner, std::function<StepReport()> report);
  void remove_report(const void* owner);
  /// Asks these processes where they are. Waits; nothing if the launch fails.
  std::optional<std::vector<StepReport>> ask(const std::vector<int>& ranks);
  /// Fails the launch, unless it has failed before: all processes learn it.
  void fail(Failure failure);
  std::optional<Failure> failure() const;
  /// True if this process announces for all why the launch has failed: the lowest rank left.
  bool speaks() const { return speaks_.load(std::memory_order_acquire); }
  /// Suppresses the announcement: the program has said why the launch has failed.
  void set_said() { said_ = true; }
  /// Announces the failure, if this process speaks and nobody has said it.
  void say();
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
  bool left() const { return left_; }  ///< all have
  /// A failure does not end the thread: it ends all processes.
  void stay_if_failed() { stays_ = true; }

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
  /// A report as it arrives.
  struct Answer {
    std::string bytes;
    bool whole = false;
  };
  int rank() { return courier_->wire().rank(); }
  int size() { return courier_->wire().size(); }
  void send(int peer, const Message& message);
  void send_all(const Message& message);
  void receive(Letter& letter);
  void handle(const Message& message);
  void answer(const Message& question);
  void take_answer(const Message& part);
  StepReport own_report() const;
  void adopt(Failure failure, bool tell);
  void beat();
  void look_for_the_dead(Clock::time_point now);
  void look_for_the_silent(Clock::time_point now);
  void lose(int rank, const std::string& how);
  void look_for_divergence(Clock::time_point now);
  void look_for_the_late(Clock::time_point now);
  void look_for_signal(Clock::time_point now);
  bool all_calls_are_known(Clock::time_point now);
  void send_outbox();
  void end_by_force(Clock::time_point now);
  std::string where_is(int rank) const;
  int previous() { return (rank() + size() - 1) % size(); }

  const ProtocolOptions options_;
  Courier* courier_ = nullptr;
  mutable std::mutex mutex_;    // guards what other threads give:
  std::deque<Message> outbox_;  ///< to rank 0, or to all
  std::optional<Failure> wanted_, failure_;
  std::vector<Process> given_;
  std::function<int()> noted_signal_;
  std::int64_t last_call_ = 0;
  std::string last_call_text_;
  const void* reporter_ = nullptr;
  std::function<StepReport()> report_;
  std::int64_t question_ = 0;    ///< number of the last one
  std::vector<Answer> answers_;  ///< to it, by rank
  std::atomic<bool> failed_{false}, speaks_{false}, leaving_{false}, ending_{false}, said_{false},
      left_{false}, stays_{false};
  std::atomic<int> stop_signal_{0};
  std::atomic<std::int64_t> together_{0};
  // of the progress thread:
  std::vector<Process> processes_;
  std::vector<int> ends_;  ///< per process of this host, a descriptor that tells of its end
  std::vector<Clock::time_point> dead_since_;
  std::optional<Calls> calls_;  ///< rank 0
  std::vector<std::unique_ptr<Letter>> letters_;
  std::vector<Letter*> idle_letters_;
  bool beat_under_way_ = false;
  Clock::time_point last_beat_{}, last_tick_{}, last_heard_{}, failed_at_{}, signal_at_{},
      leaving_since_{}, begun_at_{};
  std::string previous_is_at_;  ///< of the previous rank, by its last beat
  std::vector<bool> lost_;
};

}  // namespace alpa::processes
