#pragma once
/// The processes that run this program together, and what they do together outside of steps. All
/// run the same calls in the same order. Thread rule: calls marked collective are made by one
/// thread of a process at a time; the rest by any thread.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alpa/base/error.h"
#include "src/processes/courier.h"
#include "src/processes/protocol.h"

namespace alpa::processes {

/// Thrown to the calls of a launch that has failed.
class LaunchFailed : public Error {
 public:
  explicit LaunchFailed(Failure failure) : Error(failure.text), failure_(std::move(failure)) {}
  const Failure& failure() const { return failure_; }

 private:
  Failure failure_;
};

class World {
 public:
  /// Joins the launch; collective. Throws what `make_wire` throws.
  World(std::function<std::unique_ptr<Wire>()> make_wire, ProtocolOptions options = {});
  /// Leaves the launch: waits until all do, unless it has failed.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(processes_.size()); }
  const std::vector<Process>& processes() const { return processes_; }  ///< by rank
  std::vector<int> all_ranks() const;
  int num_hosts() const;
  /// Processes that may run on a core of this one; with itself.
  int sharing_cores() const;

  /// The process of each of `devices` devices: spread evenly, in order, over the processes, those
  /// of a host together. Throws Error if there are fewer devices than processes, or hosts would
  /// have different numbers of them.
  std::vector<int> ranks_of_devices(int devices) const;
  /// Cores offered by a host, and how many of `devices` devices share them: of the host where that
  /// is least. The same in all processes.
  struct Share {
    int cores = 1, devices = 1;
  };
  Share cores_for(int devices) const;

  /// Notes a call that all processes must make; waits for nobody. If another rank makes another
  /// call, the launch fails, and both are named. `text`: the call in words, with all that must be
  /// equal; `hash`: more of it, such as the content of a graph.
  void note_call(std::string_view text, std::uint64_t hash = 0);
  /// Collective: fails the launch unless `text` is the same in all processes, and names the first
  /// line that differs. `what` the text is of, in words.
  void require_equal(std::string_view what, const std::string& text);
  /// Collective: `bytes` of process `root`, in all.
  std::string broadcast(std::string bytes, int root = 0);
  void broadcast(std::byte* data, std::int64_t bytes, int root);
  /// Collective: those of all processes, by rank.
  std::vector<std::string> all_gather(const std::string& bytes);
  /// Collective: the largest of all processes' numbers.
  template <class Number>
  Number largest(Number own) {
    std::vector<Number> all(size(), own);
    std::vector<std::int64_t> ends(size() + 1);
    for (int i = 0; i <= size(); ++i) ends[i] = i * static_cast<std::int64_t>(sizeof(Number));
    gather_behind(reinterpret_cast<std::byte*>(all.data()), ends);
    return *std::max_element(all.begin(), all.end());
  }
  /// Collective: what `make` returns in rank 0, as text, in all processes. What it throws there is
  /// thrown in all, with the same text.
  std::string from_rank_0(const std::function<std::string()>& make);
  /// Collective: the first of `count` tags that no one else uses. Throws Error if none are left.
  int reserve_tags(int count);

  /// Leaves the launch when all do; then no call is left. Throws LaunchFailed.
  void leave();

  Courier& courier() { return *courier_; }
  Protocol& protocol() { return protocol_; }

  /// Throws LaunchFailed if the launch has failed.
  void require_alive() const;
  /// Called after Aborted was caught: throws LaunchFailed once the cause is known.
  [[noreturn]] void rethrow() const;
  /// True if this process has thrown LaunchFailed.
  bool has_thrown() const { return has_thrown_; }
  /// Fails the launch with what this process threw.
  void fail(const std::exception_ptr& thrown);

 private:
  template <class Call>
  auto together(Call&& call);
  [[noreturn]] void throw_failure() const;
  void post(Request& request, int peer, std::byte* data, std::int64_t bytes, bool sends);
  /// Puts the parts of the next ranks, around a ring, behind this process's own at `data`. Part i
  /// ends `ends[i + 1]` bytes from there; `ends[0]` is 0.
  void gather_behind(std::byte* data, const std::vector<std::int64_t>& ends);
  void wait(Request& request, int peer);

  Protocol protocol_;
  std::unique_ptr<Courier> courier_;
  mutable std::atomic<bool> has_thrown_{false};
  int rank_ = 0, next_tag_ = 0, max_tag_ = 0;
  std::int64_t num_calls_ = 0, num_together_ = 0;
  const std::chrono::milliseconds patience_;
  std::vector<Process> processes_;
  std::deque<Request> requests_;  ///< of the collective call under way, by peer, and one more
};

/// The launch that this thread belongs to; null: the program runs alone. The first call joins the
/// launch of the process, if a launcher started it (launcher.h).
World* world();

/// For tests: makes `world()` of this thread.
class InWorld {
 public:
  explicit InWorld(World& world);
  ~InWorld();
  InWorld(const InWorld&) = delete;
  InWorld& operator=(const InWorld&) = delete;

 private:
  World* before_;
};

/// True if this process writes files and prints for all: on rank 0, and in a program that runs
/// alone.
bool speaks_for_all();

}  // namespace alpa::processes
