// CUDA devices of several processes, which are threads here: cards of an emulated machine, joined
// by NCCL, compute what one process computes.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "emulation.h"
#include "support/cards_of_processes.h"
#include "support/nightly.h"

namespace processes_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

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
    CAPTURE(m);
    const int daily = 2 + static_cast<int>(m) % 3;
    for (const int size : testing::sampled<std::vector<int>>({daily}, {2, 3, 4}))
      check_like_one_process(methods[m], size, 4);
  }
}

TEST_CASE("a GPT of odd sizes with residuals and a convolution do so too, by every default") {
  emulation::restart({.devices = 3});
  check_odd_models(3);
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
      const BatchData batch = staged_mlp_batch();
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
