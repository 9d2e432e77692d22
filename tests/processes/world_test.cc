// What the processes of a launch tell each other outside of steps reaches all of them.
#include <doctest/doctest.h>

#include "support/processes.h"

namespace world_test {

using namespace alpa::testing;
using alpa::processes::world;

TEST_CASE("a broadcast of any root reaches any number of processes") {
  for (int size = 1; size <= 9; ++size) {
    const auto errors = run_processes(size, [&](int rank) {
      for (int root = 0; root < size; ++root) {
        const std::string said(root * 1000, static_cast<char>('a' + root));
        CHECK(world()->broadcast(rank == root ? said : "", root) == said);
      }
    });
    for (const std::string& error : errors) CHECK(error == "");
  }
}

TEST_CASE("all_gather gives every process the parts of all by rank, empty ones too") {
  for (int size = 1; size <= 9; ++size) {
    const auto part = [](int rank) {
      return std::string(rank % 3 * 5000, static_cast<char>('a' + rank));
    };
    const auto errors = run_processes(size, [&](int rank) {
      for (int round = 0; round < 3; ++round) {
        const std::vector<std::string> all = world()->all_gather(part(rank));
        REQUIRE(std::ssize(all) == size);
        for (int other = 0; other < size; ++other) CHECK(all[other] == part(other));
        CHECK(world()->largest((rank + round) % size) == size - 1);
      }
    });
    for (const std::string& error : errors) CHECK(error == "");
  }
}

TEST_CASE("a broadcast goes along a binomial tree") {
  constexpr int kSize = 8, kBytes = 77, kRoot = 2;
  std::vector<int> sent(kSize);
  ProcessesOptions options;
  options.launch.fault = [&](const MemoryCall& call) {
    if (call.sends && call.bytes == kBytes) ++sent[call.rank];
    return MemoryFault{};
  };
  const auto errors = run_processes(
      kSize,
      [&](int) {
        std::byte bytes[kBytes] = {};
        world()->broadcast(bytes, kBytes, kRoot);
      },
      options);
  for (const std::string& error : errors) CHECK(error == "");
  CHECK(sent == std::vector<int>{1, 0, 3, 0, 1, 0, 2, 0});  // places 6, 7, 0, 1, 2, 3, 4, 5
}

}  // namespace world_test
