#include "alpa/base/patience.h"

#include <doctest/doctest.h>
#include <time.h>

#include <chrono>
#include <thread>
#include <vector>

namespace alpa {
namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST_CASE("no change is missed, however many wait and however long") {
  for (int threads : {2, 5}) {
    Patience patience(threads);
    Patience::Word turn{0};
    constexpr std::uint32_t kRounds = 2000;
    std::vector<std::thread> players;
    for (int t = 0; t < threads; ++t)
      players.emplace_back([&, t] {
        const auto mine = [&](std::uint32_t now) { return static_cast<int>(now % threads) == t; };
        for (std::uint32_t round = 0; round < kRounds; ++round) {
          CHECK(patience.wait(turn, mine) == round * threads + t);
          if (round % 500 == 499) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          ++turn;
          patience.wake(turn);
        }
      });
    for (std::thread& player : players) player.join();
    CHECK(turn == kRounds * threads);
  }
}

TEST_CASE("a long wait uses no core, and neither do those after it") {
  Patience patience(2);
  Patience::Word word{0};
  std::thread setter([&] {
    for (int i = 0; i < 20; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      ++word;
      patience.wake(word);
    }
  });
  const double before = cpu_seconds();
  for (std::uint32_t i = 0; i < 20; ++i) patience.wait(word, [i](std::uint32_t now) { return now > i; });
  CHECK(cpu_seconds() - before < 0.02);  // of 0.2 s
  setter.join();
}

TEST_CASE("a waiter may throw out of its wait, and others are woken as before") {
  Patience patience(2);
  Patience::Word word{0};
  std::thread setter([&] {
    ++word;
    patience.wake(word);
  });
  CHECK_THROWS_AS(patience.wait(word,
                                [](std::uint32_t now) {
                                  if (now == 1) throw 1;
                                  return false;
                                }),
                  int);
  setter.join();
  std::thread waiter([&] { CHECK(patience.wait(word, [](std::uint32_t now) { return now == 2; }) == 2); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ++word;
  patience.wake(word);
  waiter.join();
}

}  // namespace
}  // namespace alpa
