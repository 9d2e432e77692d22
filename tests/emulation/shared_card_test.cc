// Processes, which are threads here, whose devices share the one card of an emulated machine, where
// NCCL refuses to join them: they compute what logical devices of one process do.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "cuda/collective_checks.h"
#include "emulation.h"
#include "src/cuda/staged.h"
#include "support/cards_of_processes.h"
#include "support/nightly.h"

namespace shared_card_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// Process `rank` of two or three that share the card: one step, then `meanwhile(rank)`, then more.
void interrupted(const Method& method, int devices, int rank,
                 const std::function<void(int rank)>& meanwhile) {
  const Executable step =
      parallelize(staged_mlp_step(kRows, kWidth), method, Cluster::local(devices, "cuda"));
  TrainState state = step.init(3);
  const BatchData batch = staged_mlp_batch();
  step.run(state, batch).loss();
  meanwhile(rank);
  for (int i = 0; i < 3; ++i) step.run(state, batch).loss();
}

}  // namespace

TEST_CASE("processes that share a card compute what its logical devices do, bit for bit") {
  PipeshardParallel captured{.num_micro_batches = 2};
  captured.executor.capture = Capture::always;  // no step of these processes can be captured
  const Method methods[] = {DataParallel{.num_micro_batches = 2},
                            Zero2Parallel{.num_micro_batches = 2},
                            Zero3Parallel{},
                            ShardParallel{.batch_mesh_axis = 0},
                            PipeshardParallel{.num_micro_batches = 4},
                            captured};
  emulation::restart({.devices = 1});
  for (std::size_t m = 0; m < std::size(methods); ++m) {
    CAPTURE(m);
    using Sizes = std::vector<std::pair<int, int>>;
    const Sizes all = {{2, 2}, {3, 3}, {2, 4}, {3, 4}};
    for (const auto& [size, devices] : testing::sampled(Sizes{all[m % 4]}, all))
      CHECK(check_like_one_process(methods[m], size, devices).communicates);
  }
}

TEST_CASE("a GPT of odd sizes with residuals and a convolution do so too, by every default") {
  emulation::restart({.devices = 1});
  check_odd_models(3);
}

TEST_CASE("every collective among them gives what threads exchange, bit for bit") {
  emulation::restart({.devices = 1});
  constexpr int kMembers = 4;
  const std::vector<int> ranks = {0, 1, 1, 2};
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter,
                                    CollectiveKind::all_gather, CollectiveKind::all_to_all})
    for (const DType dtype : {f32, bf16, i32}) {
      CAPTURE(name_of(kind));
      CAPTURE(name_of(dtype));
      const Exchange exchange =
          make_exchange(kind, Combiner::sum, dtype, kMembers, {{7, 5, 9}}, 1, 2);
      const auto expected = on_threads(exchange);
      std::vector<HostTensor> results(kMembers);
      const auto errors = run_processes(3, [&](int rank) {
        processes::World& world = *processes::world();
        const int tag = world.reserve_tags(kMembers);
        const auto group = cuda::make_staged_group(world, ranks, tag);
        std::deque<DeviceMember> devices;
        std::vector<cuda::Member> members;
        for (int m = 0; m < kMembers; ++m)
          if (ranks[m] == rank) {
            const DeviceMember& device = devices.emplace_back(0, exchange, m, false);
            members.push_back({m, device.stream.get(), &device.call});
          }
        for (int call = 0; call < 2; ++call)
          while (!group->queue(exchange.call, members)) std::this_thread::yield();
        for (std::size_t i = 0; i < members.size(); ++i) {
          cudaStreamSynchronize(members[i].stream);
          const int m = members[i].index;
          results[m] = devices[i].buffers[1].download(exchange.outputs[m][0].type);
        }
        world.all_gather("");  // the last messages are out before the group ends
      });
      for (const std::string& error : errors) CHECK(error == "");
      for (int m = 0; m < kMembers; ++m) CHECK(results[m] == expected[m][0]);
    }
}

TEST_CASE("a card that processes share is planned as one that logical devices share") {
  emulation::restart({.devices = 1});
  const std::string alone = Cluster::local(4, "cuda").to_json();
  for (const int size : {2, 4}) {
    const auto errors = run_processes(size, [&](int) {
      CHECK(Cluster::local(4, "cuda").to_json() == alone);
      CHECK_THROWS_WITH_AS(Cluster::local(), doctest::Contains("1 device for"), Error);
    });
    for (const std::string& error : errors) CHECK(error == "");
  }
}

TEST_CASE("a kernel that fails in one of them ends the step of all, and is named in all") {
  for (int n = 1; n < 40; n += 3) {
    CAPTURE(n);
    emulation::restart({.devices = 1});
    const auto errors = run_processes(2, [&](int rank) {
      interrupted(DataParallel{}, 2, rank, [&](int own) {
        if (own == 1) emulation::fail_kernel(n);
      });
    });
    for (const std::string& error : errors) {
      CAPTURE(error);
      CHECK(error.find("cudaErrorIllegalAddress") != error.npos);
    }
  }
}

TEST_CASE("an error in one of them ends the step of all, which name it") {
  emulation::restart({.devices = 1});
  for (const Method& method : {Method(DataParallel{}), Method(PipeshardParallel{})}) {
    const auto errors = run_processes(2, [&](int rank) {
      interrupted(method, 2, rank,
                  [](int own) { require(own == 0, "the loader of rank 1 found no file"); });
    });
    for (const std::string& error : errors) {
      CAPTURE(error);
      CHECK(error.find("the loader of rank 1 found no file") != error.npos);
    }
  }
}

}  // namespace shared_card_test
