// NCCL groups on emulated machines of several cards, and of several
// processes that lose one another.
#include <atomic>
#include <future>
#include <numeric>

#include "cuda/collective_checks.h"
#include "emulation.h"
#include "support/error_text.h"
#include "support/nccl_on_cards.h"

namespace collective_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// The ranks of a group, each on a thread of its own, as processes would be: `part` gets its group.
void run_ranks(int n, const std::function<void(int rank, cuda::CollectiveGroup& group)>& part) {
  const std::string id = cuda::make_nccl_id();
  std::vector<int> all(n);
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank)
    threads.emplace_back([&, rank] {
      const cuda::NcclCard own{rank, rank};
      cuda::NcclParent parent(n, id, {&own, 1}, {});
      part(rank, *cuda::make_nccl_group(n, parent.split(all)));
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("cards of one process exchange tensors through NCCL as threads do") {
  for (const int n : {1, 2, 3, 4}) {
    emulation::restart({.devices = n});
    std::vector<int> ordinals;
    for (int i = n; i-- > 0;) ordinals.push_back(i);  // in another order than the ranks
    check_collectives(ordinals, nccl_group_on);
  }
}

TEST_CASE("more ranks than a kernel reads at once combine what NCCL cannot along the same tree") {
  constexpr int kRanks = 70;
  emulation::restart({.devices = kRanks});
  std::vector<int> ordinals(kRanks);
  std::iota(ordinals.begin(), ordinals.end(), 0);
  const auto group = nccl_group_on(ordinals);
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter}) {
    const Exchange exchange =
        make_exchange(kind, Combiner::log_sum_exp, f32, kRanks, {{3, 75, 2}, {1, 2, 1}}, 1, 0);
    CHECK(agree(on_devices(exchange, *group, ordinals, false, false), on_threads(exchange),
                Combiner::log_sum_exp));
  }
}

TEST_CASE("one process per card, that is one host thread per rank, gives the same") {
  constexpr int kRanks = 3;
  emulation::restart({.devices = kRanks});
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter,
                                    CollectiveKind::all_gather, CollectiveKind::all_to_all}) {
    const Exchange exchange = make_exchange(kind, Combiner::sum, f32, kRanks, {{7, 5, 4}}, 1, 2);
    const auto expected = on_threads(exchange);
    std::vector<HostTensor> results(kRanks);
    run_ranks(kRanks, [&](int rank, cuda::CollectiveGroup& group) {
      const DeviceMember device(rank, exchange, rank, false);
      const cuda::Member member{rank, device.stream.get(), &device.call};
      group.queue(exchange.call, {&member, 1});
      cudaStreamSynchronize(device.stream.get());
      results[rank] = device.buffers[1].download(exchange.outputs[rank][0].type);
    });
    for (int rank = 0; rank < kRanks; ++rank) CHECK(results[rank] == expected[rank][0]);
  }
}

TEST_CASE("a rank whose peer is gone learns of it, and ends when it aborts") {
  emulation::restart({.devices = 2});
  const Exchange exchange =
      make_exchange(CollectiveKind::all_reduce, Combiner::sum, f32, 2, {{8}}, 0, 0);
  std::promise<void> queued, gone;
  std::string message;
  cudaError_t waiting = cudaSuccess, ended = cudaErrorUnknown;
  run_ranks(2, [&](int rank, cuda::CollectiveGroup& group) {
    if (rank == 1) {
      queued.get_future().wait();
      group.abort();
      return gone.set_value();
    }
    const DeviceMember device(0, exchange, 0, false);
    const cuda::Member member{0, device.stream.get(), &device.call};
    group.check_health();
    group.queue(exchange.call, {&member, 1});
    queued.set_value();
    gone.get_future().wait();
    waiting = cudaStreamQuery(device.stream.get());
    message = error_of([&] { group.check_health(); });
    group.abort();
    ended = cudaStreamSynchronize(device.stream.get());
  });
  CHECK(waiting == cudaErrorNotReady);
  CHECK(message ==
        "rank 0 of 2 in its NCCL group: remote process exited or there was a network error ()");
  CHECK(ended == cudaSuccess);
}

TEST_CASE("where a rank never comes to a split, the others leave no communicator behind") {
  emulation::restart({.devices = 2});
  const int before[] = {emulation::most_communicators(0), emulation::most_communicators(1)};
  const std::string id = cuda::make_nccl_id();
  std::atomic<int> joined{0};
  std::atomic<bool> lost{false};
  std::string messages[2];
  const auto rank = [&](int r) {
    const cuda::NcclCard own{r, r};
    cuda::NcclParent parent(2, id, {&own, 1}, [&] {
      if (lost) fail("lost rank {}", 1 - r);
    });
    ++joined;
    while (joined < 2) std::this_thread::yield();
    if (r == 0) lost = true;
    while (r == 1 && joined < 3) std::this_thread::yield();
    messages[r] = error_of([&] { parent.split({0, 1}); });
    ++joined;
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  CHECK(messages[0] == "lost rank 1");
  CHECK(messages[1].starts_with("ncclCommSplit: "));
  emulation::restart({.devices = 2});
  for (const int card : {0, 1}) CHECK(emulation::most_communicators(card) == before[card]);
}

TEST_CASE("ranks that cannot join are an error that names rank and card") {
  emulation::restart({.devices = 2});
  const std::vector<int> same = {1, 1};
  const std::string message = error_of([&] { nccl_group_on(same); });
  CHECK(message.starts_with("ncclCommInitRankConfig(rank 1 of 2, card 1): ncclInvalidUsage (5): "));
}

}  // namespace collective_test
