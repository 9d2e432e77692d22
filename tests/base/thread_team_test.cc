#include "src/base/thread_team.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include "alpa/base/error.h"
#include "support/held_threads.h"

namespace alpa::thread_team_test {
namespace {

TEST_CASE("every element is visited exactly once, whatever the team and the grain") {
  for (int threads : {1, 2, 3, 7}) {
    ThreadTeam team(threads);
    CHECK(team.size() == threads);
    for (std::int64_t n : {0, 1, 2, 5, 100, 1001})
      for (std::int64_t grain : {1, 3, 50, 5000}) {
        std::vector<int> visits(static_cast<std::size_t>(n), 0);
        team.parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
          CHECK(begin < end);
          for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
        });
        CHECK(visits == std::vector<int>(static_cast<std::size_t>(n), 1));
      }
  }
}

TEST_CASE("slices depend on n, grain and the team's size alone, and are at least a grain long") {
  ThreadTeam team(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::int64_t> ends(3, -1);
    team.parallel_for(10, 3, [&](std::int64_t begin, std::int64_t end) {
      ends[static_cast<std::size_t>(begin / 3)] = end;
    });
    CHECK(ends == std::vector<std::int64_t>{3, 6, 10});
  }
  std::atomic<int> slices{0};
  team.parallel_for(10, 5, [&](std::int64_t begin, std::int64_t end) {
    CHECK(end - begin >= 5);
    ++slices;
  });
  CHECK(slices == 2);
}

TEST_CASE("slices are those of the team's size, however few of its threads are there") {
  const auto slices_of = [](ThreadTeam team) {
    std::mutex mutex;
    std::set<std::pair<std::int64_t, std::int64_t>> slices;
    team.parallel_for(1001, 3, [&](std::int64_t begin, std::int64_t end) {
      const std::lock_guard lock(mutex);
      slices.emplace(begin, end);
    });
    return slices;
  };
  for (int threads : {2, 5}) {
    const auto all = slices_of(ThreadTeam(threads));
    CHECK(std::ssize(all) == threads * ThreadTeam::kSlicesPerThread);
    for (int running : {1, 2, 9}) CHECK(slices_of(ThreadTeam(threads, running)) == all);
  }
  const int usable = usable_cores();
  CHECK(offered_cores() >= usable);
  CHECK(usable_cores() == usable);
}

TEST_CASE("work of at most one grain runs on the caller") {
  ThreadTeam team(4);
  std::thread::id where;
  team.parallel_for(100, 100,
                    [&](std::int64_t, std::int64_t) { where = std::this_thread::get_id(); });
  CHECK(where == std::this_thread::get_id());
}

TEST_CASE(
    "the exception of the first failing slice reaches the caller, and the team goes on working") {
  ThreadTeam team(3);
  for (int round = 0; round < 3; ++round) {
    std::string message;
    try {
      team.parallel_for(3, 1, [](std::int64_t begin, std::int64_t) {
        if (begin > 0) throw std::runtime_error(std::to_string(begin));
      });
    } catch (const std::runtime_error& error) {
      message = error.what();
    }
    CHECK(message == "1");
    std::atomic<int> done{0};
    team.parallel_for(3, 1, [&](std::int64_t, std::int64_t) { ++done; });
    CHECK(done == 3);
  }
}

TEST_CASE("more teams than cores make progress at once") {
  std::vector<std::thread> devices;
  std::atomic<std::int64_t> total{0};
  for (int d = 0; d < 8; ++d)
    devices.emplace_back([&] {
      ThreadTeam team(2);
      for (int i = 0; i < 200; ++i)
        team.parallel_for(64, 1,
                          [&](std::int64_t begin, std::int64_t end) { total += end - begin; });
    });
  for (std::thread& device : devices) device.join();
  CHECK(total == 8 * 200 * 64);
}

TEST_CASE("a team that slept after its last work wakes up again") {
  ThreadTeam team(2);
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> slices{0};
    team.parallel_for(2, 1, [&](std::int64_t, std::int64_t) { ++slices; });
    CHECK(slices == 2);
  }
}

TEST_CASE("a worker that the system does not run takes no work, and nobody waits for it") {
#if !defined(__SANITIZE_THREAD__)
  ThreadTeam team(3);
  std::atomic<int> sum{0};
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    sum += static_cast<int>(end - begin);
  };
  team.parallel_for(100, 1, add);
  CHECK(testing::returns_without_others([&] {
    for (int i = 0; i < 10; ++i) team.parallel_for(100, 1, add);
  }));
  team.parallel_for(100, 1, add);
  CHECK(sum == 1200);
#endif
}

TEST_CASE("a slice that takes long is waited for, and the others are shared out meanwhile") {
  ThreadTeam team(2);
  constexpr int kSlices = 2 * ThreadTeam::kSlicesPerThread;
  std::atomic<int> begun{0};
  std::atomic<bool> done[kSlices] = {};
  team.parallel_for(kSlices, 1, [&](std::int64_t begin, std::int64_t) {
    // Whoever is first keeps its thread busy until the other has run everything else.
    if (begun++ == 0)
      for (int left = 1; left > 0; std::this_thread::yield())
        left = static_cast<int>(
                   std::count_if(std::begin(done), std::end(done), [](auto& d) { return !d; })) -
               1;
    done[begin] = true;
  });
  CHECK(std::all_of(std::begin(done), std::end(done), [](auto& d) { return d.load(); }));
}

TEST_CASE("a team of no threads is refused") {
  CHECK_THROWS_WITH_AS(ThreadTeam(0), "thread team: 0 threads; a team needs at least 1", Error);
  CHECK(usable_cores() >= 1);
}

}  // namespace
}  // namespace alpa::thread_team_test
