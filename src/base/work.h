#pragma once
/// Work of planning, counted where it is done. Decisions follow from work instead of time, so that
/// a plan depends neither on the machine nor on what else runs there.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/base/thread_team.h"
#include "src/base/timing.h"

namespace alpa {

/// Work of this thread so far, in seconds: about what a core of 2021 takes, which reads 5 · 10^8
/// cells of cost tables in one, with all that goes beside (ilp::kSecondsPerCell).
inline thread_local double work_done = 0;

/// Reports work of this thread, in seconds.
inline void spend_work(double seconds) { work_done += seconds; }

/// Reports a pass that builds something for each of so many nodes of a graph.
inline void spend_nodes(std::size_t nodes) {
  constexpr double kSecondsPerNode = 2.5e-6;
  spend_work(kSecondsPerNode * static_cast<double>(nodes));
}

/// Measures work from its construction.
class WorkWatch {
 public:
  double seconds() const { return work_done - begin_; }

 private:
  double begin_ = work_done;
};

/// Measures work, which decides, and the clock, which ends planning, from its construction.
struct PlanningWatch {
  WorkWatch work = {};
  Stopwatch clock = {};
};

/// Calls item(n) for all n of [0, count) on the team. Watches of the caller go on in each item as
/// if it were the only one; then the caller's work grows as if two cores had shared the items, on
/// any number of cores.
template <class Item>
void parallel_work(ThreadTeam& team, std::int64_t count, Item&& item) {
  const double begin = work_done;
  std::vector<double> work(count, 0);
  team.parallel_for(count, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t n = first; n < last; ++n) {
      const double before = std::exchange(work_done, begin);
      item(n);
      work[n] = std::exchange(work_done, before) - begin;
    }
  });
  double all = 0, longest = 0;
  for (const double seconds : work) all += seconds, longest = std::max(longest, seconds);
  work_done += std::max(longest, all / 2);
}

}  // namespace alpa
