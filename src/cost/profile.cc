// src/cost/profile.cc — measures the rate of copying memory
#include "src/cost/profile.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "alpa/base/error.h"
#include "src/base/thread_team.h"
#include "src/base/timing.h"

namespace alpa::cost {
namespace {

double copy_seconds(ThreadTeam& team, const std::vector<char>& from, std::vector<char>& to) {
  const Stopwatch watch;
  team.parallel_for(
      static_cast<std::int64_t>(from.size()), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
        std::memcpy(to.data() + begin, from.data() + begin, static_cast<std::size_t>(end - begin));
      });
  return watch.seconds();
}

}  // namespace

CopyRate measure_copy(int num_threads, std::int64_t bytes, double seconds) {
  require(bytes >= 1, "measure_copy: {} bytes; copy at least 1", bytes);
  ThreadTeam team(num_threads);
  const std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes);
  copy_seconds(team, from, to);  // wakes the threads
  std::vector<double> rounds;
  const Stopwatch watch;
  while (rounds.size() < 3 || watch.seconds() < seconds) {
    rounds.push_back(
        // a clock tick, lest a tiny copy takes no time
        std::max(copy_seconds(team, from, to), 1e-9));
  }
  std::sort(rounds.begin(), rounds.end());
  const double moved = 2 * static_cast<double>(bytes);
  return {moved / rounds[rounds.size() / 2], moved / rounds.front(),
          static_cast<int>(rounds.size())};
}

}  // namespace alpa::cost
