// Wires in memory: the contract of all wires, and what injected faults do.
#include "support/memory_wire.h"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <deque>
#include <exception>
#include <thread>

#include "alpa/base/error.h"
#include "processes/wire_contract.h"
#include "src/base/exception_text.h"

namespace memory_wire_test {

using namespace alpa::processes;
using namespace alpa::testing;

namespace {

using Tickets = std::vector<int>;

/// What() of the Bug that `call` throws.
template <class Call>
std::string bug_of(Call&& call) {
  try {
    call();
  } catch (const alpa::Bug& bug) {
    return bug.what();
  }
  return "no bug";
}

/// Runs `body` as every process of the launch. What those that failed say.
template <class Body>
std::string run_launch(MemoryLaunch& launch, int size, const Body& body) {
  std::vector<std::string> failures(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        const std::unique_ptr<Wire> wire = launch.wire(rank);
        body(*wire);
      } catch (...) {
        failures[static_cast<std::size_t>(rank)] = alpa::text_of(std::current_exception());
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::string all;
  for (const std::string& failure : failures) all += failure.empty() ? "" : failure + "; ";
  return all;
}

/// Two processes; process 0 sends numbers with tag 1, process 1 awaits them.
class Pair {
 public:
  explicit Pair(std::function<MemoryFault(const MemoryCall&)> fault)
      : launch({.size = 2, .fault = std::move(fault)}), a(launch.wire(0)), b(launch.wire(1)) {}

  int send(int value) {
    values_.push_back(value);
    return a->send(1, 1, reinterpret_cast<const std::byte*>(&values_.back()), sizeof value);
  }
  int receive() {
    received_.push_back(-1);
    return b->receive(0, 1, reinterpret_cast<std::byte*>(&received_.back()), sizeof(int));
  }
  /// What has been received, -1 where nothing has.
  std::vector<int> received() const { return {received_.begin(), received_.end()}; }

  static Tickets completed(Wire& wire) {
    std::array<int, 16> tickets{};
    const int count = wire.completed(tickets);
    return {tickets.begin(), tickets.begin() + count};
  }

  MemoryLaunch launch;
  std::unique_ptr<Wire> a, b;

 private:
  std::deque<int> values_, received_;
};

/// The fault of process 0's call of this number; all other calls have none.
std::function<MemoryFault(const MemoryCall&)> at_call(std::int64_t number, MemoryFault fault) {
  return [=](const MemoryCall& call) {
    return call.rank == 0 && call.number == number ? fault : MemoryFault{};
  };
}

}  // namespace

TEST_CASE("wires in memory keep the contract with 1, 2 and 5 processes") {
  for (int size : {1, 2, 5})
    for (const WireCheck& check : alpa::testing::wire_checks()) {
      CAPTURE(size);
      CAPTURE(check.claim);
      MemoryLaunch launch({.size = size});
      CHECK(run_launch(launch, size, [&](Wire& wire) {
              check.run(wire);
              alpa::testing::leave(wire);
            }) == "");
    }
}

TEST_CASE("late messages break no promise of a wire") {
  for (const WireCheck& check : alpa::testing::wire_checks()) {
    CAPTURE(check.claim);
    MemoryLaunch launch({.size = 3, .fault = [](const MemoryCall& call) {
                           const std::int64_t mixed = call.number * 7919 + call.rank;
                           return MemoryFault{.delay_calls = static_cast<int>(mixed % 4),
                                              .delay = std::chrono::milliseconds(mixed % 50 == 0)};
                         }});
    CHECK(run_launch(launch, 3, [&](Wire& wire) {
            check.run(wire);
            alpa::testing::leave(wire);
          }) == "");
  }
}

TEST_CASE("a launch in memory has the hosts it is given") {
  MemoryLaunch launch({.size = 3, .hosts = {0, 0, 1}});
  for (int rank = 0; rank < 3; ++rank) CHECK(launch.wire(rank)->host() == rank / 2);
  CHECK(bug_of([&] { launch.wire(1); }) == "process 1 has a wire already");
  CHECK(bug_of([] {
          MemoryLaunch({.size = 3, .hosts = {0, 1}});
        }) == "a launch of 3 processes with 2 hosts");
}

TEST_CASE("a message of another length than awaited is a bug that names both sides, in memory") {
  Pair pair(nullptr);
  const std::byte data[3] = {};
  pair.a->send(1, 1, data, 3);
  pair.receive();
  CHECK(bug_of([&] { Pair::completed(*pair.b); }) ==
        "message with tag 1: process 0 sent 3 bytes, process 1 awaits 4");
}

TEST_CASE("what no wire can send is a bug") {
  Pair pair(nullptr);
  CHECK(bug_of([&] { pair.a->send(kAnyPeer, 1, nullptr, 0); }) ==
        "process 0 of 2 sends 0 bytes to process -1 with tag 1 of at most 32767");
  CHECK(bug_of([&] { pair.b->receive(2, 40000, nullptr, 0); }) ==
        "process 1 of 2 awaits 0 bytes from process 2 with tag 40000 of at most 32767");
}

TEST_CASE("all have left when the last has, and messages get on until then") {
  Pair other(nullptr);
  CHECK_FALSE(other.a->leave());
  CHECK_FALSE(other.a->leave());
  other.send(1);
  other.receive();
  CHECK(Pair::completed(*other.b).size() == 1);
  other.receive();  // for nothing: given up
  CHECK(other.b->leave());
  CHECK(other.a->leave());
  CHECK(bug_of([&] { other.send(1); }) == "process 0 has left and starts a message");
}

TEST_CASE("a dropped message is sent and never arrives") {
  Pair pair(at_call(1, {.delivery = Delivery::never}));
  for (int value : {1, 2, 3}) pair.send(value);
  for (int i = 0; i < 3; ++i) pair.receive();
  CHECK(Pair::completed(*pair.a).size() == 3);
  CHECK(Pair::completed(*pair.b).size() == 2);
  CHECK(pair.received() == std::vector<int>{1, 3, -1});
}

TEST_CASE("a doubled message arrives twice") {
  Pair pair(at_call(1, {.delivery = Delivery::twice}));
  for (int value : {1, 2, 3}) pair.send(value);
  for (int i = 0; i < 4; ++i) pair.receive();
  CHECK(Pair::completed(*pair.b).size() == 4);
  CHECK(pair.received() == std::vector<int>{1, 2, 2, 3});
}

TEST_CASE("a message that changes places arrives behind the next one, or never") {
  Pair pair(at_call(0, {.delivery = Delivery::behind_next}));
  pair.send(1);
  for (int i = 0; i < 3; ++i) pair.receive();
  CHECK(Pair::completed(*pair.b).empty());
  pair.send(2);
  pair.send(3);
  CHECK(Pair::completed(*pair.b).size() == 3);
  CHECK(pair.received() == std::vector<int>{2, 1, 3});
}

TEST_CASE("a late message arrives so many calls later, and holds back those behind it") {
  Pair pair(at_call(0, {.delay_calls = 3}));
  for (int value : {1, 2}) pair.send(value);
  for (int i = 0; i < 2; ++i) pair.receive();
  CHECK(Pair::completed(*pair.b).empty());
  CHECK(Pair::completed(*pair.b).empty());
  CHECK(Pair::completed(*pair.b).size() == 2);
  CHECK(pair.received() == std::vector<int>{1, 2});
}

TEST_CASE("a message that takes its time arrives when that has passed") {
  const auto begin = std::chrono::steady_clock::now();
  Pair pair(at_call(0, {.delay = std::chrono::milliseconds(30)}));
  pair.send(1);
  pair.receive();
  while (Pair::completed(*pair.b).empty()) std::this_thread::yield();
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(30));
}

TEST_CASE("a frozen process does nothing until it runs again") {
  Pair pair(at_call(1, {.caller = MemberFate::frozen}));
  const std::vector<std::byte> large(100'000, std::byte{7});
  std::vector<std::byte> taken(large.size());
  const int first = pair.a->send(1, 2, large.data(), 100'000);
  pair.b->receive(0, 2, taken.data(), 100'000);
  pair.send(1);  // lost: it was frozen
  pair.receive();
  CHECK(Pair::completed(*pair.a).empty());
  CHECK(Pair::completed(*pair.b).empty());
  CHECK_FALSE(pair.a->leave());
  pair.a->abort(3);
  CHECK(pair.launch.aborted() == std::nullopt);
  pair.launch.set(0, MemberFate::runs);
  CHECK(Pair::completed(*pair.b).size() == 1);
  CHECK(taken == large);
  CHECK(Pair::completed(*pair.a) == Tickets{first});
}

TEST_CASE("a lost process sends nothing more, and its memory is not read") {
  Pair pair(nullptr);
  {
    const std::vector<std::byte> large(100'000);
    pair.a->send(1, 2, large.data(), 100'000);
    pair.send(5);
    pair.launch.set(0, MemberFate::lost);
  }
  std::vector<std::byte> taken(100'000);
  pair.b->receive(0, 2, taken.data(), 100'000);
  const int small = pair.receive();
  CHECK(Pair::completed(*pair.b) == Tickets{small});
  pair.launch.set(0, MemberFate::runs);
  pair.send(6);
  pair.receive();
  CHECK(Pair::completed(*pair.b).empty());
  CHECK(pair.received() == std::vector<int>{5, -1});
}

TEST_CASE("a wire that is destroyed early leaves no pointer behind") {
  Pair pair(nullptr);
  {
    const std::vector<std::byte> large(100'000);
    pair.a->send(1, 2, large.data(), 100'000);
    pair.a.reset();
  }
  std::vector<std::byte> taken(100'000);
  pair.b->receive(0, 2, taken.data(), 100'000);
  CHECK(Pair::completed(*pair.b).empty());
  pair.b->send(0, 1, taken.data(), 100'000);
  pair.b.reset();
}

TEST_CASE("a message that its sender has forgotten is not read") {
  Pair pair(nullptr);
  const std::vector<std::byte> large(100'000);
  std::vector<std::byte> taken(large.size());
  pair.a->send(1, 2, large.data(), std::ssize(large));
  pair.a->forget_messages();
  pair.b->receive(0, 2, taken.data(), std::ssize(taken));
  CHECK(Pair::completed(*pair.b).empty());
  pair.a->abort(1);  // which it may do still
  CHECK(pair.launch.aborted() == 1);
}

TEST_CASE("after an abort no wire does anything, and the first status stays") {
  Pair pair(nullptr);
  pair.send(1);
  pair.receive();
  pair.b->abort(75);
  pair.a->abort(1);
  CHECK(pair.launch.aborted() == 75);
  CHECK(Pair::completed(*pair.a).empty());
  CHECK(Pair::completed(*pair.b).empty());
  CHECK(pair.received() == std::vector<int>{-1});
  CHECK_FALSE(pair.a->leave());
}

TEST_CASE("faults see every call, numbered by its process") {
  std::vector<MemoryCall> calls;
  Pair pair([&](const MemoryCall& call) {
    calls.push_back(call);
    return MemoryFault{};
  });
  pair.send(1);
  pair.receive();
  pair.send(2);
  REQUIRE(calls.size() == 3);
  CHECK((calls[1].rank == 1 && calls[1].number == 0 && !calls[1].sends));
  CHECK((calls[2].rank == 0 && calls[2].number == 1 && calls[2].sends && calls[2].peer == 1 &&
         calls[2].tag == 1 && calls[2].bytes == 4));
}

}  // namespace memory_wire_test
