// What one card can say of NCCL, in seconds: a communicator of one rank that does not block, as
// processes of a launch have, is split, captured in a graph, replayed and aborted.
#include <fmt/core.h>

#include <chrono>

#include "collective_checks.h"
#include "src/cuda/captured_step.h"
#include "src/cuda/nccl_parent.h"
#include "src/cuda/wait_until_done.h"
#include "support/error_text.h"

namespace alpa::nccl_smoke_test {
namespace {

using namespace testing;

constexpr double kLimitSeconds = 5;
constexpr int kReplays = 3;

/// A row of JSON for every part, as soon as it is over; no part waits for longer than the limit.
class Timed {
 public:
  void require_in_time() const {
    require(seconds_since(begin_) < kLimitSeconds, "NCCL on one card takes more than {} s",
            kLimitSeconds);
  }
  void end_of(const char* part) {
    fmt::print("{{\"name\": \"nccl {}\", \"seconds\": {:.4f}}}\n", part, seconds_since(part_));
    std::fflush(stdout);
    part_ = Clock::now();
    require_in_time();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point part_ = begin_;
};

std::vector<Exchange> four_exchanges() {
  std::vector<Exchange> exchanges;
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter,
                                    CollectiveKind::all_gather, CollectiveKind::all_to_all})
    exchanges.push_back(make_exchange(kind, Combiner::sum, f32, 1, {{6, 5, 4}}, 0, 1));
  return exchanges;
}

/// All exchanges, one behind the other on the stream of the first.
void queue_all(cuda::CollectiveGroup& group, const std::vector<Exchange>& exchanges,
               const std::vector<DeviceMember>& members) {
  for (std::size_t i = 0; i < exchanges.size(); ++i)
    group.queue(exchanges[i].call,
                std::vector{cuda::Member{0, members[0].stream.get(), &members[i].call}});
}

/// The results of `members` are those of threads, after they were overwritten and `run` ran.
void check_results(const std::vector<Exchange>& exchanges, const std::vector<DeviceMember>& members,
                   const std::function<void()>& run, const Timed& timed) {
  const cuda::Stream stream = members[0].stream.get();
  for (const DeviceMember& member : members)
    check(cudaMemsetAsync(member.call.outputs[0].data, 0xcb,
                          static_cast<std::size_t>(member.call.outputs[0].type.bytes()), stream));
  run();
  cuda::wait_until_done([&] { return cudaStreamQuery(stream); }, [&] { timed.require_in_time(); });
  for (std::size_t i = 0; i < exchanges.size(); ++i) {
    CAPTURE(name_of(exchanges[i].call.kind));
    const HostTensor got = members[i].buffers[1].download(exchanges[i].outputs[0][0].type);
    CHECK(got == on_threads(exchanges[i])[0][0]);
  }
}

TEST_CASE("one rank joins without blocking, splits, replays four collectives and aborts in 5 s") {
  if (no_device()) return;
  Timed timed;
  const cuda::NcclCard card{0, 0};
  std::unique_ptr<cuda::CollectiveGroup> group;
  {
    cuda::NcclParent parent(1, cuda::make_nccl_id(), {&card, 1}, [&] { timed.require_in_time(); });
    timed.end_of("joined");
    group = cuda::make_nccl_group(1, parent.split({0}), [&] { timed.require_in_time(); });
    timed.end_of("split");
  }
  timed.end_of("parent left");
  const std::vector<Exchange> exchanges = four_exchanges();
  std::vector<DeviceMember> members;
  for (const Exchange& exchange : exchanges) members.emplace_back(0, exchange, 0, false);
  check_results(
      exchanges, members, [&] { queue_all(*group, exchanges, members); }, timed);
  timed.end_of("queued");
  {
    const cuda::GraphExec graph =
        cuda::capture(members[0].stream.get(), [&] { queue_all(*group, exchanges, members); });
    timed.end_of("captured");
    for (int replay = 0; replay < kReplays; ++replay)
      check_results(
          exchanges, members, [&] { check(cudaGraphLaunch(graph.get(), members[0].stream.get())); },
          timed);
    timed.end_of("replayed");
  }
  group->check_health();
  group->abort();
  timed.end_of("aborted");
  CHECK(error_of([&] { group->check_health(); }) == "the NCCL group of rank 0 was aborted");
}

}  // namespace
}  // namespace alpa::nccl_smoke_test
