#pragma once
/// The state of the emulated machine. One mutex guards all of it; `notify` is called behind every
/// change that a thread may wait for. Everything here is called in an Unseen (sanitizers.h) and
/// with the mutex held, unless it says otherwise.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cuda_runtime_api.h"
#include "emulation.h"
#include "sanitizers.h"

namespace alpa::emulation {

/// The completion of a piece of work.
struct Ticket {
  bool done = false;
  std::chrono::steady_clock::time_point time;  ///< of completion
  /// addresses that stand for the order with host and others
  char issued = 0, finished = 0;
};
using TicketPtr = std::shared_ptr<Ticket>;

/// Work that a stream does: called without the mutex, in an Unseen, until it returns true;
/// after false it is called again behind `go_on_with_works`. `state` is its own between these
/// calls. What the program's data is touched with stands in a Seen. Throws a cudaError_t as
/// the device's sticky error.
using Work = std::function<bool(std::shared_ptr<void>& state)>;

/// As what a graph counts a piece of work. Calls of cuBLASLt, cuDNN and NCCL are one kernel each.
enum class NodeKind { kernel, copy, clear, other };

/// Work that touches the program's data and does not wait.
template <class Body>
Work visible(Body body) {
  return [body = std::move(body)](std::shared_ptr<void>&) {
    const Seen seen;
    body();
    return true;
  };
}

enum class MemoryKind { device, pinned, registered };

struct Allocation {
  std::size_t bytes;
  MemoryKind kind;
  int device;
};

struct Device {
  std::size_t used_bytes = 0, allocations = 0;
  int communicators = 0, most_communicators = 0;
  cudaError_t fault = cudaSuccess;  ///< sticky
  bool held = false;                ///< nothing but copies begins to run
  cudaStream_t legacy = nullptr;    ///< the default stream
  std::vector<cudaStream_t> streams;
};

/// A thread that waits until `holds(condition)`.
struct Waiter {
  bool (*holds)(const void* condition);
  const void* condition;
  std::condition_variable wake = {};
};

struct World {
  World();

  std::mutex mutex;
  std::vector<Waiter*> waiters;
  std::uint64_t changes = 0;  ///< calls of `go_on_with_works`
  Machine machine;
  std::deque<Device> devices;                   ///< machine.devices of them exist
  std::map<std::uintptr_t, Allocation> memory;  ///< by first byte
  std::int64_t kernels = 0;                     ///< that were run
  std::chrono::hours lag{0};                    ///< of the clock of events ahead of the true time
  int last_engine = -1;                         ///< of cuDNN
  GraphNodes last_graph;                        ///< of the graph that was instantiated last
  Totals totals;
  std::map<std::vector<std::string>, int> kernels_by_ranges;  ///< of NVTX, since `restart`
  std::set<std::string> given_names;
  std::vector<KernelLaunch> captured_kernels;  ///< since `restart`
};

/// Never destroyed: threads of streams outlive `main`. May be called without the mutex.
World& world();
using Lock = std::unique_lock<std::mutex>;

/// Wakes the threads whose conditions hold now, and no others: each of many streams has a thread.
void notify();
/// The same; work that waits for others is called again.
void go_on_with_works();
void wait(Lock& lock, Waiter& waiter);
/// Waits until `condition` holds, which other threads ask, too, with the mutex held.
template <class Condition>
void wait_until(Lock& lock, const Condition& condition) {
  Waiter waiter{[](const void* asked) { return (*static_cast<const Condition*>(asked))(); },
                &condition};
  wait(lock, waiter);
}

/// A kernel's code is gone: its address may become another's.
void forget_kernel(const void* kernel);

int current_device();
/// NVTX's, of the calling thread, the outermost first.
const std::vector<std::string>& open_ranges();
/// What this thread's cudaGetLastError returns.
cudaError_t& last_error();

/// One call of the interface: `body(lock)` gives its status, unless the device has a sticky
/// error. Called from the program.
template <class Body>
cudaError_t call(Body&& body) {
  const Unseen unseen;
  Lock lock(world().mutex);
  cudaError_t status = world().devices[static_cast<std::size_t>(current_device())].fault;
  if (status == cudaSuccess) status = body(lock);
  if (status != cudaSuccess) last_error() = status;
  return status;
}

/// As `call`, for what gives something back: done on a device with an error, too, so
/// that tests can restart it.
template <class Body>
cudaError_t give_back(Body&& body) {
  const Unseen unseen;
  Lock lock(world().mutex);
  const cudaError_t fault = world().devices[static_cast<std::size_t>(current_device())].fault;
  cudaError_t status = body(lock);
  if (fault != cudaSuccess) status = fault;
  if (status != cudaSuccess) last_error() = status;
  return status;
}

/// The allocation that holds all of [data, data + bytes); nullptr if none does.
const Allocation* allocation_of(const void* data, std::size_t bytes);

}  // namespace alpa::emulation
