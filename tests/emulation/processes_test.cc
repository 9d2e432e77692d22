// CUDA devices of several processes, which are threads here: cards of an emulated machine, joined
// by NCCL, compute what one process computes.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "emulation.h"
#include "support/processes.h"
#include "support/staged_mlp.h"

namespace processes_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr std::int64_t kRows = 8, kWidth = 12;

struct Outcome {
  std::vector<double> losses, weights;
  bool operator==(const Outcome&) const = default;
};

/// Two training steps, an evaluation, then all parameters.
Outcome train(const Method& method, int devices, const std::string& backend = "cuda") {
  const auto [step, evaluate] =
      parallelize(staged_mlp_step(kRows, kWidth), staged_mlp_evaluation(kRows, kWidth), method,
                  Cluster::local(devices, backend));
  TrainState state = step.init(3);
  const BatchData batch = {{"x", linear_dataset(kRows, kWidth, 1).x}};
  Outcome outcome;
  for (int i = 0; i < 2; ++i) outcome.losses.push_back(step.run(state, batch).loss());
  outcome.losses.push_back(evaluate.run(state, batch).loss());
  for (const DistributedArray& parameter : state.parameters())
    for (const double x : parameter.to_host().to_doubles()) outcome.weights.push_back(x);
  CHECK(step.measured_bytes(state) == step.memory_bytes());
  CHECK(step.measured_traffic().size() == step.traffic().size());
  return outcome;
}

template <class M>
M captured(M method) {
  method.executor.capture = Capture::always;
  return method;
}

}  // namespace

TEST_CASE("cards of several processes compute what cards of one process do, bit for bit") {
  const Method methods[] = {DataParallel{},
                            Zero2Parallel{.num_micro_batches = 2},
                            Zero3Parallel{},
                            ShardParallel{},
                            PipeshardParallel{.num_micro_batches = 4},
                            captured(DataParallel{.num_micro_batches = 2}),
                            captured(PipeshardParallel{.num_micro_batches = 2})};
  emulation::restart({.devices = 4});
  for (std::size_t m = 0; m < std::size(methods); ++m) {
    const Outcome alone = train(methods[m], 4);
    for (const int size : {2, 3, 4}) {
      CAPTURE(m);
      CAPTURE(size);
      std::vector<Outcome> outcomes(size);
      const auto errors =
          run_processes(size, [&](int rank) { outcomes[rank] = train(methods[m], 4); });
      for (int rank = 0; rank < size; ++rank) {
        CHECK(errors[rank] == "");
        CHECK(outcomes[rank] == alone);
      }
    }
  }
}

TEST_CASE("processes of a host that see too few cards for all are told, in all of them") {
  emulation::restart({.devices = 3});
  const auto errors = run_processes(2, [&](int) { train(DataParallel{}, 4); });
  for (const std::string& error : errors) {
    CHECK(error.find("rank 1 of 2") != error.npos);
    CHECK(error.find("has 2 devices, but only 1 of the 3 cards that it sees are left by other "
                     "processes of its host") != error.npos);
  }
}

TEST_CASE("Cluster::local() counts the cards of a host once, whoever sees them") {
  emulation::restart({.devices = 4});
  const auto errors = run_processes(2, [&](int) {
    const Cluster cluster = Cluster::local();
    CHECK(cluster.backend == "cuda");
    CHECK(cluster.num_devices() == 4);
  });
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("a kernel that fails in one process ends the step of all, and is named in all") {
  for (int n = 1; n < 40; n += 3) {
    CAPTURE(n);
    emulation::restart({.devices = 2});
    const auto errors = run_processes(2, [&](int rank) {
      const Executable step =
          parallelize(staged_mlp_step(kRows, kWidth), DataParallel{}, Cluster::local(2, "cuda"));
      TrainState state = step.init(3);
      const BatchData batch = {{"x", linear_dataset(kRows, kWidth, 1).x}};
      step.run(state, batch).loss();
      if (rank == 1) emulation::fail_kernel(n);
      for (int i = 0; i < 3; ++i) step.run(state, batch).loss();
    });
    for (const std::string& error : errors) {
      CAPTURE(error);
      CHECK(error.find("cudaErrorIllegalAddress") != error.npos);
    }
  }
}

}  // namespace processes_test
