// all_reduces between processes against the same members in one: equal to the bit, on both sides of
// the size up to which one hop is taken.
#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "src/comm/group.h"
#include "src/tensor/element.h"
#include "support/processes.h"

namespace process_group_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// As src/comm/device_group.cc has it: bytes times the other processes.
constexpr std::int64_t kOneHopBytes = 1 << 16;

/// Tensors of one member, whose sums depend on their order.
struct Operands {
  std::vector<std::vector<std::byte>> memory;
  std::vector<KernelTensor> tensors;

  Operands(DType dtype, const std::vector<std::int64_t>& sizes, int member) {
    for (const std::int64_t size : sizes) {
      memory.emplace_back(size * size_of(dtype) + 1);
      for (std::int64_t i = 0; i < size; ++i) {
        const double value = static_cast<double>((7919 * (i + 3) * (member + 5)) % 1009 - 504);
        store_element(dtype, memory.back().data() + i * size_of(dtype),
                      dtype == i32 ? value : value / 7);
      }
      tensors.push_back({memory.back().data(), {dtype, {size}}, {0}, {size}});
    }
  }
};

struct Call {
  DType dtype;
  std::vector<std::int64_t> sizes;
  Combiner combiner = Combiner::sum;
};

/// All members' results of `calls`, one behind the other.
using Results = std::vector<std::vector<std::vector<std::byte>>>;

/// The calls of one member; every second one in place. Room for each is made before it.
void call_all(comm::Group& group, int member, const std::vector<Call>& calls, Results& results) {
  bool in_place = false;
  for (const Call& call : calls) {
    Operands in(call.dtype, call.sizes, member), out(call.dtype, call.sizes, 0);
    Operands& to = in_place ? in : out;
    group.reserve(member, {CollectiveKind::all_reduce, in.tensors, to.tensors});
    const std::int64_t planned = group.reserved_bytes(member);
    group.all_reduce(member, in.tensors, to.tensors, call.combiner);
    CHECK(group.reserved_bytes(member) == planned);
    results[member].insert(results[member].end(), to.memory.begin(), to.memory.end());
    in_place = !in_place;
  }
}

/// Every member of `group` that is in process `rank`, on a thread of its own.
void run_members(comm::Group& group, const std::vector<int>& ranks, int rank,
                 const std::vector<Call>& calls, Results& results) {
  std::vector<std::thread> threads;
  for (int member = 0; member < static_cast<int>(ranks.size()); ++member)
    if (ranks[member] == rank)
      threads.emplace_back([&, member] { call_all(group, member, calls, results); });
  for (std::thread& thread : threads) thread.join();
}

Results in_one_process(const std::vector<int>& ranks, const std::vector<Call>& calls) {
  Results results(ranks.size());
  const auto group = comm::make_thread_group(static_cast<int>(ranks.size()));
  run_members(*group, std::vector<int>(ranks.size(), 0), 0, calls, results);
  return results;
}

struct Outcome {
  Results results;
  int messages = 0;  ///< of the group
};

Outcome in_processes(const std::vector<int>& ranks, const std::vector<Call>& calls) {
  Outcome outcome{.results = Results(ranks.size())};
  std::atomic<int> sends{0}, first_tag{1 << 30};
  const auto count = [&](const MemoryCall& call) {
    sends += call.sends && call.tag >= first_tag ? 1 : 0;
    return MemoryFault{};
  };
  const int size = *std::max_element(ranks.begin(), ranks.end()) + 1;
  const auto errors = run_processes(
      size,
      [&](int rank) {
        processes::World& world = *processes::world();
        const int tag = world.reserve_tags(comm::tags_of_group(ranks));
        first_tag = tag;
        const auto group = comm::make_group(
            {.ranks = ranks, .rank = rank, .first_tag = tag, .courier = &world.courier()});
        run_members(*group, ranks, rank, calls, outcome.results);
      },
      {.launch = {.fault = count}});
  for (const std::string& error : errors) CHECK(error == "");
  outcome.messages = sends;
  return outcome;
}

}  // namespace

TEST_CASE("an all_reduce has the same bits in any processes, in one hop and in two") {
  for (const std::vector<int>& ranks : std::vector<std::vector<int>>{
           {0, 1}, {0, 0, 1, 1}, {0, 1, 0, 1, 2}, {0, 0, 0, 1, 1, 1, 2}, {0, 1, 2, 3, 4, 5, 6}}) {
    CAPTURE(ranks.size());
    const std::int64_t others = *std::max_element(ranks.begin(), ranks.end());
    std::vector<Call> calls;
    for (const DType dtype : {f32, bf16, f64, i32})
      for (const Combiner combiner : kCombiners) {
        if (combiner == Combiner::log_sum_exp && dtype == i32) continue;
        const auto most = kOneHopBytes / others / static_cast<std::int64_t>(size_of(dtype));
        calls.push_back({dtype, {1}, combiner});
        calls.push_back({dtype, {5, 0, 301, 1, 64}, combiner});
        calls.push_back({dtype, {most}, combiner});
        calls.push_back({dtype, {17, most - 16}, combiner});
        calls.push_back({dtype, {3 * most + 7, 1}, combiner});
      }
    CHECK(in_processes(ranks, calls).results == in_one_process(ranks, calls));
  }
}

TEST_CASE("a short all_reduce is one message from each process to each other") {
  const std::vector<int> ranks = {0, 0, 0, 1, 1, 1, 2};
  constexpr std::int64_t most = kOneHopBytes / 2 / 4;
  CHECK(in_processes(ranks, {{f32, {1}}}).messages == 3 * 2);
  CHECK(in_processes(ranks, {{f32, {most - 9, 9}}}).messages == 3 * 2);
  // A partial sum from each process for each member of others, and 7 finished slices for 2 each.
  CHECK(in_processes(ranks, {{f32, {most + 1}}}).messages == 2 * 7 + 2 * 7);
}

}  // namespace process_group_test
