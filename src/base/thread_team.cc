#include "alpa/base/thread_team.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#include "alpa/base/error.h"
#include "alpa/base/start_threads.h"

namespace alpa {
namespace {

/// Threads of all living teams. As long as each has a core of its own, waiting threads spin for a while.
std::atomic<int> living_threads{0};

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// Waits until `word` is no longer `old`: spins first where cores suffice, then sleeps.
void wait_while_equal(const std::atomic<int>& word, int old) {
  static const int cores = usable_cores();
  int spins = living_threads.load(std::memory_order_relaxed) <= cores ? 1000 : 0;
  for (; spins > 0; --spins) {
    if (word.load(std::memory_order_acquire) != old) return;
    pause();
  }
  word.wait(old, std::memory_order_acquire);
}

}  // namespace

struct ThreadTeam::Impl {
  explicit Impl(int num_threads) : size(num_threads), errors(num_threads) {}

  void work(int index) {
    for (int seen = 0;; ++seen) {
      wait_while_equal(epoch, seen);
      if (stop) return;
      run_slice(index);
      if (pending.fetch_sub(1, std::memory_order_acq_rel) == 1) pending.notify_one();
    }
  }

  void run_slice(int index) {
    if (index >= slices) return;
    try {
      body(context, n * index / slices, n * (index + 1) / slices);
    } catch (...) {
      errors[index] = std::current_exception();
    }
  }

  /// Lets every worker pass once; what was written before is visible to them.
  void release_workers() {
    pending.store(size - 1, std::memory_order_relaxed);
    epoch.fetch_add(1, std::memory_order_release);
    epoch.notify_all();
  }

  /// Lets every worker return.
  void dismiss() {
    stop = true;
    release_workers();
  }

  void wait_for_workers() {
    for (int left; (left = pending.load(std::memory_order_acquire)) != 0;) wait_while_equal(pending, left);
  }

  void rethrow_first_error() {
    for (std::exception_ptr& error : errors)
      if (error) {
        const std::exception_ptr first = error;
        std::fill(errors.begin(), errors.end(), nullptr);
        std::rethrow_exception(first);
      }
  }

  const int size;
  std::vector<std::exception_ptr> errors;  ///< of each slice
  void (*body)(void*, std::int64_t, std::int64_t) = nullptr;
  void* context = nullptr;
  std::int64_t n = 0;
  std::int64_t slices = 0;
  bool stop = false;
  alignas(64) std::atomic<int> epoch{0};
  alignas(64) std::atomic<int> pending{0};
  std::vector<std::thread> workers;
};

ThreadTeam::ThreadTeam(int num_threads) {
  require(num_threads >= 1, "thread team: {} threads; a team needs at least 1", num_threads);
  impl_ = std::make_unique<Impl>(num_threads);
  const auto work = [impl = impl_.get()](int i) { impl->work(i + 1); };
  start_threads(impl_->workers, num_threads - 1, "thread team", work, [this] { impl_->dismiss(); });
  living_threads += num_threads;
}

ThreadTeam::~ThreadTeam() {
  impl_->dismiss();
  for (std::thread& worker : impl_->workers) worker.join();
  living_threads -= impl_->size;
}

int ThreadTeam::size() const { return impl_->size; }

void ThreadTeam::run(std::int64_t n, std::int64_t grain, void (*body)(void*, std::int64_t, std::int64_t),
                     void* context) {
  if (n <= 0) return;
  Impl& team = *impl_;
  const std::int64_t slices = std::min<std::int64_t>(team.size, n / std::max<std::int64_t>(grain, 1));
  if (slices <= 1) return body(context, 0, n);
  team.body = body;
  team.context = context;
  team.n = n;
  team.slices = slices;
  team.release_workers();
  team.run_slice(0);
  team.wait_for_workers();
  team.rethrow_first_error();
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace alpa
