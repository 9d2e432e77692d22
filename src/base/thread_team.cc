// src/base/thread_team.cc — slices of work, each taken by a free thread. A thread that the system
// does not run takes none, so the caller waits only for slices that another thread has begun.
#include "src/base/thread_team.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <thread>
#include <vector>

#include "alpa/base/error.h"
#include "src/base/spin_wait.h"
#include "src/base/start_threads.h"

namespace alpa {
namespace {

/// Slices [begin, end) that nobody has taken yet, in one word. Taking one acquires what was written
/// before `put`; a thread that is late takes slices of whatever call is under way then.
class alignas(64) Share {
 public:
  void put(std::uint32_t begin, std::uint32_t end) {
    word_.store(std::uint64_t{begin} << 32 | end, std::memory_order_release);
  }
  int take_first() {
    return take(std::uint64_t{1} << 32, [](Range range) { return range.begin; });
  }
  int take_last() {
    return take(~std::uint64_t{0}, [](Range range) { return range.end - 1; });
  }

 private:
  struct Range {
    std::uint32_t begin, end;
  };

  /// Adds `step` to the word, and returns the slice that it takes; -1 if there is none.
  template <class Slice>
  int take(std::uint64_t step, Slice&& slice) {
    std::uint64_t word = word_.load(std::memory_order_acquire);
    for (;;) {
      const Range range{static_cast<std::uint32_t>(word >> 32), static_cast<std::uint32_t>(word)};
      if (range.begin >= range.end) return -1;
      if (word_.compare_exchange_weak(word, word + step, std::memory_order_acq_rel,
                                      std::memory_order_acquire))
        return static_cast<int>(slice(range));
    }
  }

  std::atomic<std::uint64_t> word_{0};
};

}  // namespace

struct ThreadTeam::Impl {
  Impl(int num_threads, int running_threads)
      : size(num_threads),
        running(running_threads),
        shares(num_threads),
        errors(num_threads * kSlicesPerThread),
        spin_wait(running) {}

  void work(int index) {
    for (std::uint32_t seen = 0;;) {
      seen = spin_wait.wait(epoch, [seen](std::uint32_t now) { return now != seen; });
      if (stop) return;
      finish(run_slices(index));
    }
  }

  /// Runs slices until all are taken, first those of thread `index`, so that a thread mostly sees
  /// the same part of the data from call to call. Returns how many.
  int run_slices(int index) {
    int ran = 0;
    for (int slice; (slice = shares[index].take_first()) >= 0; ++ran) run_slice(slice);
    for (int other = 1; other < size; ++other)
      for (int slice; (slice = shares[(index + other) % size].take_last()) >= 0; ++ran)
        run_slice(slice);
    return ran;
  }

  void run_slice(int slice) {
    try {
      body(context, n * slice / slices, n * (slice + 1) / slices);
    } catch (...) {
      errors[slice] = std::current_exception();
    }
  }

  void finish(int ran) {
    if (ran > 0 && unfinished.fetch_sub(ran) == static_cast<std::uint32_t>(ran))
      spin_wait.wake(unfinished);
  }

  void offer_slices() {
    unfinished.store(static_cast<std::uint32_t>(slices));
    for (int i = 0; i < size; ++i)
      shares[i].put(static_cast<std::uint32_t>(slices * i / size),
                    static_cast<std::uint32_t>(slices * (i + 1) / size));
    ++epoch;
    spin_wait.wake(epoch, static_cast<int>(std::min<std::int64_t>(slices, running) - 1));
  }

  /// Lets every worker return.
  void dismiss() {
    stop = true;
    ++epoch;
    spin_wait.wake(epoch);
  }

  void rethrow_first_error() {
    for (std::exception_ptr& error : errors)
      if (error) {
        const std::exception_ptr first = error;
        std::fill(errors.begin(), errors.end(), nullptr);
        std::rethrow_exception(first);
      }
  }

  const int size, running;
  std::vector<Share> shares;               ///< of each thread
  std::vector<std::exception_ptr> errors;  ///< of each slice
  void (*body)(void*, std::int64_t, std::int64_t) = nullptr;
  void* context = nullptr;
  std::int64_t n = 0;
  std::int64_t slices = 0;
  std::atomic<bool> stop{false};
  alignas(64) SpinWait::Word epoch{0};       ///< calls so far
  alignas(64) SpinWait::Word unfinished{0};  ///< slices of this call
  SpinWait spin_wait;
  std::vector<std::thread> workers;
};

ThreadTeam::ThreadTeam(int num_threads) : ThreadTeam(num_threads, num_threads) {}

ThreadTeam::ThreadTeam(int num_threads, int running) {
  require(num_threads >= 1, "thread team: {} threads; a team needs at least 1", num_threads);
  running = std::min(num_threads, running);
  impl_ = std::make_unique<Impl>(num_threads, running);
  const auto work = [impl = impl_.get()](int i) { impl->work(i + 1); };
  start_threads(impl_->workers, running - 1, "thread team", work, [this] { impl_->dismiss(); });
}

ThreadTeam::~ThreadTeam() {
  impl_->dismiss();
  for (std::thread& worker : impl_->workers) worker.join();
}

int ThreadTeam::size() const { return impl_->size; }

void ThreadTeam::run(std::int64_t n, std::int64_t grain,
                     void (*body)(void*, std::int64_t, std::int64_t), void* context) {
  if (n <= 0) return;
  Impl& team = *impl_;
  const std::int64_t slices = std::min<std::int64_t>(std::int64_t{team.size} * kSlicesPerThread,
                                                     n / std::max<std::int64_t>(grain, 1));
  if (slices <= 1 || team.size == 1) return body(context, 0, n);
  team.body = body;
  team.context = context;
  team.n = n;
  team.slices = slices;
  team.offer_slices();
  team.finish(team.run_slices(0));
  team.spin_wait.wait(team.unfinished, [](std::uint32_t left) { return left == 0; });
  team.rethrow_first_error();
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int offered_cores() {
  static const int offered = [] {
    int cores = usable_cores();
    cpu_set_t own, every;
    CPU_ZERO(&every);
    for (int core = 0; core < CPU_SETSIZE; ++core) CPU_SET(core, &every);
    // A thread that binds itself to every core gets those that nobody withholds from it.
    if (sched_getaffinity(0, sizeof own, &own) == 0 &&
        sched_setaffinity(0, sizeof every, &every) == 0) {
      cores = usable_cores();
      if (cores > CPU_COUNT(&own)) sched_setaffinity(0, sizeof own, &own);
    }
    const char* const of_job = std::getenv("SLURM_CPUS_ON_NODE");
    const int most = of_job != nullptr ? std::atoi(of_job) : 0;
    return most >= 1 ? std::min(cores, most) : cores;
  }();
  return offered;
}

}  // namespace alpa
