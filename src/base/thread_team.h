#pragma once
/// The threads of one device. Slices are fixed by (n, grain, team size), so results do not depend
/// on timing. Any free thread takes the next slice, so a thread without a core delays nobody.
#include <cstdint>
#include <memory>

namespace alpa {

class ThreadTeam {
 public:
  /// A team of `num_threads` >= 1: the caller's thread and num_threads - 1 workers. Throws Error if
  /// num_threads < 1 or a worker cannot be started.
  explicit ThreadTeam(int num_threads);
  /// Slices are those of `num_threads`, of which only `running` >= 1 are there to take them.
  ThreadTeam(int num_threads, int running);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const;

  /// Most slices per thread of a call. More slices than threads let the others take over the work
  /// of a late or interrupted thread.
  static constexpr int kSlicesPerThread = 4;

  /// Calls body(begin, end) for disjoint slices of [0, n), each at least `grain` long if n allows;
  /// returns when all are done. Runs on the caller alone if n <= grain. Allocates nothing. Rethrows
  /// an exception of any slice on the caller.
  template <class Body>
  void parallel_for(std::int64_t n, std::int64_t grain, Body&& body) {
    run(
        n, grain,
        [](void* context, std::int64_t begin, std::int64_t end) {
          (*static_cast<std::remove_reference_t<Body>*>(context))(begin, end);
        },
        const_cast<void*>(static_cast<const void*>(&body)));
  }
  /// Calls body(i) for every i of [0, n), in such slices.
  template <class Body>
  void for_each(std::int64_t n, std::int64_t grain, const Body& body) {
    parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) body(i);
    });
  }

 private:
  void run(std::int64_t n, std::int64_t grain, void (*body)(void*, std::int64_t, std::int64_t),
           void* context);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Processor cores this process may use (sched_getaffinity), at least 1.
int usable_cores();

/// Cores that it could bind itself to, at least 1: of the machine, of its container or of its Slurm
/// job, whatever a launcher or `taskset` bound it to. Plans and sums follow from these.
int offered_cores();

}  // namespace alpa
