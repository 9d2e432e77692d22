#include "src/base/spin_wait.h"

#include <doctest/doctest.h>
#include <time.h>

#include <chrono>
#include <thread>
#include <vector>

namespace alpa::spin_wait_test {
namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST_CASE("no change is missed, however many wait and however long") {
  for (int threads : {2, 5}) {
    SpinWait spin_wait(threads);
    SpinWait::Word turn{0};
    constexpr std::uint32_t kRounds = 2000;
    std::vector<std::thread> players;
    for (int t = 0; t < threads; ++t)
      players.emplace_back([&, t] {
        const auto mine = [&](std::uint32_t now) { return static_cast<int>(now % threads) == t; };
        for (std::uint32_t round = 0; round < kRounds; ++round) {
          CHECK(spin_wait.wait(turn, mine) == round * threads + t);
          if (round % 500 == 499) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          ++turn;
          spin_wait.wake(turn);
        }
      });
    for (std::thread& player : players) player.join();
    CHECK(turn == kRounds * threads);
  }
}

TEST_CASE("a long wait uses no core, and neither do those after it") {
  SpinWait spin_wait(2);
  SpinWait::Word word{0};
  std::thread setter([&] {
    for (int i = 0; i < 20; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      ++word;
      spin_wait.wake(word);
    }
  });
  const double before = cpu_seconds();
  for (std::uint32_t i = 0; i < 20; ++i)
    spin_wait.wait(word, [i](std::uint32_t now) { return now > i; });
  CHECK(cpu_seconds() - before < 0.02);  // of 0.2 s
  setter.join();
}

TEST_CASE("a waiter may throw out of its wait, and others are woken as before") {
  SpinWait spin_wait(2);
  SpinWait::Word word{0};
  std::thread setter([&] {
    ++word;
    spin_wait.wake(word);
  });
  CHECK_THROWS_AS(spin_wait.wait(word,
                                 [](std::uint32_t now) {
                                   if (now == 1) throw 1;
                                   return false;
                                 }),
                  int);
  setter.join();
  std::thread waiter(
      [&] { CHECK(spin_wait.wait(word, [](std::uint32_t now) { return now == 2; }) == 2); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ++word;
  spin_wait.wake(word);
  waiter.join();
}

TEST_CASE("a wait with a limit ends when the word changes, or else when the time is over") {
  SpinWait spin_wait(2);
  SpinWait::Word word{0};
  const auto is_one = [](std::uint32_t now) { return now == 1; };
  CHECK(!spin_wait.wait_for(word, std::chrono::milliseconds(2), is_one));
  std::thread setter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ++word;
    spin_wait.wake(word);
  });
  CHECK(spin_wait.wait_for(word, std::chrono::minutes(1), is_one));
  setter.join();
}

}  // namespace
}  // namespace alpa::spin_wait_test
