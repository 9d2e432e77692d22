#pragma once
/// A launch in memory: its "processes" are groups of threads of this one, so that ThreadSanitizer
/// and injected faults reach all that is built on wires. As in MPI, a short message is copied when
/// it is sent, and a long one stays with its sender until the receiver calls. Thread rule: a launch
/// may be used by any thread, each of its wires by one thread at a time.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "src/processes/wire.h"

namespace alpa::testing {

/// A call of `send` or `receive`, into which a fault may be injected.
struct MemoryCall {
  int rank = 0;             ///< of the caller
  std::int64_t number = 0;  ///< of the caller's sends and receives before this one
  bool sends = false;       ///< else it receives
  int peer = 0, tag = 0;
  std::int64_t bytes = 0;
};

/// `behind_next` changes places with the sender's next message of this tag to this receiver, and is
/// lost without one.
enum class Delivery { once, never, twice, behind_next };

/// A frozen process may run again: its wire does nothing, and its long messages wait. So does the
/// wire of a lost one, whose long messages are lost.
enum class MemberFate { runs, frozen, lost };

/// Fault injected into a call; by default none. Delays and deliveries apply to sends.
struct MemoryFault {
  Delivery delivery = Delivery::once;
  int delay_calls = 0;  ///< of the receiver's `completed` before the message is there
  std::chrono::milliseconds delay{0};    ///< before the message is there
  MemberFate caller = MemberFate::runs;  ///< from this call on
};

struct MemoryLaunchOptions {
  int size = 1;
  std::vector<int> hosts = {};  ///< `Wire::host` of every process; empty: 0
  int max_tag = 32767;          ///< the least that MPI promises
  /// Asked by one thread at a time. An answer that depends on the call alone, and on a seed, can be
  /// repeated: the order of calls of different processes can't.
  std::function<MemoryFault(const MemoryCall&)> fault = nullptr;
};

class MemoryLaunch {
 public:
  explicit MemoryLaunch(MemoryLaunchOptions options);

  /// The wire of a process, once. It may outlive the launch. A wire that is destroyed before all
  /// have left makes its process lost.
  std::unique_ptr<processes::Wire> wire(int rank);

  /// Freezes a process, lets it run again, or loses it for good.
  void set(int rank, MemberFate fate);

  /// The status of the first `abort`. From then on no wire does anything.
  std::optional<int> aborted() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace alpa::testing
