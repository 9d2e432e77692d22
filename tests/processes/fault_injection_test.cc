// Trainings in several processes whose messages are lost, late, doubled or out of order, or whose
// members freeze and vanish: every process has the right numbers, or an Error, and none waits for
// good. Wires promise that a message between devices arrives once and in order, as MPI does, so
// these are delayed and lost here, never doubled or reordered. The protocol's own may be all.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "src/processes/tags.h"
#include "support/at_once.h"
#include "support/processes.h"
#include "support/staged_mlp.h"

namespace fault_injection_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// Long enough for a busy machine, and for sanitizers: nobody but the chosen process may count as
/// lost.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::chrono::seconds kSilence{6};
constexpr double kStallSeconds = 4;
constexpr int kMostCalls = 3, kLaunchesAtOnce = 3;
#else
constexpr std::chrono::seconds kSilence{2};
constexpr double kStallSeconds = 1.5;
constexpr int kMostCalls = 12, kLaunchesAtOnce = 36;
#endif

constexpr std::int64_t kRows = 12, kWidth = 6;

struct Outcome {
  std::vector<double> losses;
  std::vector<double> weights;
  bool operator==(const Outcome&) const = default;
};

Method in_stages(int stages) {
  PipeshardParallel method{.num_micro_batches = 3, .stages = UniformStages{stages}};
  method.executor.stall_seconds = kStallSeconds;
  return method;
}

Method by_shards() {
  Zero3Parallel method;
  method.executor.stall_seconds = kStallSeconds;
  return method;
}

Outcome train(const Method& method, int devices) {
  const Executable step =
      parallelize(staged_mlp_step(kRows, kWidth), method, Cluster::local(devices));
  TrainState state = step.init(1);
  Outcome outcome;
  std::vector<float> x(kRows * kWidth);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  for (int i = 0; i < 2; ++i)
    outcome.losses.push_back(step.run(state, {{"x", Array(x, {kRows, kWidth})}}).loss());
  outcome.weights = Array(state["dense0.kernel"]).to_doubles();
  return outcome;
}

/// How many calls each process makes in a training without faults.
struct Training {
  Method method;
  int size = 2;
  Outcome right;
  std::vector<std::int64_t> calls;
};

Training training(const Method& method, int size) {
  Training made{method, size, train(method, size), std::vector<std::int64_t>(size)};
  ProcessesOptions options;
  options.launch.fault = [&](const MemoryCall& call) {
    made.calls[call.rank] = std::max(made.calls[call.rank], call.number + 1);
    return MemoryFault{};
  };
  const auto errors = run_processes(
      size, [&](int) { CHECK(train(method, size) == made.right); }, options);
  for (const std::string& error : errors) CHECK(error == "");
  return made;
}

/// A fault at call `number` of process `rank`; `number_of` counts.
struct Injected {
  MemoryFault fault;
  int rank = 0;
  std::int64_t number = 0;
  std::function<bool(const MemoryCall&)> hits = [](const MemoryCall&) { return true; };
};

/// Returns the number of processes with an Error.
int check(const Training& training, const Injected& injected) {
  CAPTURE(injected.rank);
  CAPTURE(injected.number);
  ProcessesOptions options;
  options.protocol.silence = kSilence;
  options.protocol.joining = std::chrono::seconds(4);
  options.launch.fault = [&](const MemoryCall& call) {
    const bool here = call.rank == injected.rank && call.number == injected.number;
    return here && injected.hits(call) ? injected.fault : MemoryFault{};
  };
  std::vector<Outcome> outcomes(training.size);
  const std::vector<std::string> errors = run_processes(
      training.size, [&](int rank) { outcomes[rank] = train(training.method, training.size); },
      options);
  int failed = 0;
  for (int rank = 0; rank < training.size; ++rank) {
    failed += errors[rank].empty() ? 0 : 1;
    CHECK_MESSAGE((!errors[rank].empty() || outcomes[rank] == training.right), errors[rank]);
  }
  return failed;
}

/// So many calls of each training, at most kMostCalls, drawn by `seed`. Several launches wait for
/// their faults at once.
template <class Body>
void for_some_calls(const std::vector<Training>& trainings, int count, unsigned seed, Body&& body) {
  struct Call {
    const Training* training;
    int rank;
    std::int64_t number;
  };
  std::mt19937 random(seed);
  std::vector<Call> calls;
  for (const Training& training : trainings)
    for (int i = 0; i < std::min(count, kMostCalls); ++i) {
      const int rank = static_cast<int>(random() % training.size);
      calls.push_back(
          {&training, rank, static_cast<std::int64_t>(random() % training.calls[rank])});
    }
  const auto all = static_cast<int>(calls.size());
  for (int done = 0; done < all; done += kLaunchesAtOnce)
    at_once(std::min(kLaunchesAtOnce, all - done), [&](int i) {
      const Call& call = calls[done + i];
      body(*call.training, call.rank, call.number);
    });
}

const std::vector<Training>& trainings() {
  static const std::vector<Training> all = {training(in_stages(2), 2), training(by_shards(), 3),
                                            training(in_stages(4), 4)};
  return all;
}

bool of_protocol(const MemoryCall& call) { return call.tag == processes::kControlTag; }

}  // namespace

TEST_CASE("late messages change no number") {
  for_some_calls(trainings(), 12, 1, [](const Training& training, int rank, std::int64_t number) {
    CHECK(check(training, {{.delay = std::chrono::milliseconds(60)}, rank, number}) == 0);
    CHECK(check(training, {{.delay_calls = 10}, rank, number}) == 0);
  });
}

TEST_CASE("a process that freezes or vanishes at any of its calls is an error in all") {
  const std::vector<Training>& all = trainings();
  const MemberFate fates[] = {MemberFate::frozen, MemberFate::lost};
  at_once(2, [&](int f) {
    for_some_calls(all, 2, 2, [&](const Training& training, int rank, std::int64_t number) {
      // At its last calls the training may be over.
      const int failed = check(training, {{.caller = fates[f]}, rank, number});
      if (2 * number < training.calls[rank]) CHECK(failed == training.size);
    });
  });
}

TEST_CASE("messages of the protocol that are lost, doubled or out of order change no number") {
  for (const Delivery delivery : {Delivery::never, Delivery::twice, Delivery::behind_next})
    for_some_calls(trainings(), 10, 3,
                   [&](const Training& training, int rank, std::int64_t number) {
                     check(training, {{.delivery = delivery}, rank, number, of_protocol});
                   });
}

TEST_CASE("a message of a call outside of steps that is lost is an error in all") {
  for_some_calls(trainings(), 3, 5, [](const Training& training, int rank, std::int64_t number) {
    bool hit = false;
    const auto of_host = [&](const MemoryCall& call) {
      return hit = call.sends && call.tag == processes::kHostTag;
    };
    const int failed = check(training, {{.delivery = Delivery::never}, rank, number, of_host});
    CHECK(failed == (hit ? training.size : 0));
  });
}

TEST_CASE("a message between devices that is lost is an error in all") {
  for_some_calls(trainings(), 2, 4, [](const Training& training, int rank, std::int64_t number) {
    bool hit = false;
    const auto between_devices = [&](const MemoryCall& call) {
      return hit = call.sends && call.tag >= processes::kFirstFreeTag;
    };
    const int failed =
        check(training, {{.delivery = Delivery::never}, rank, number, between_devices});
    CHECK(failed == (hit ? training.size : 0));
  });
}

}  // namespace fault_injection_test
