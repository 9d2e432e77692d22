// Devices that outnumber cores share threads, and take turns on them.
#include "src/runtime/turns.h"

#include <alpa/alpa.h>
#include <doctest/doctest.h>
#include <sched.h>

#include <filesystem>
#include <iterator>
#include <thread>

#include "src/base/thread_team.h"
#include "support/staged_mlp.h"

namespace turns_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// The caller's thread, and those it starts, have so many of its cores meanwhile.
class Cores {
 public:
  explicit Cores(int count) {
    REQUIRE(sched_getaffinity(0, sizeof before_, &before_) == 0);
    cpu_set_t fewer;
    CPU_ZERO(&fewer);
    for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&fewer) < count; ++core)
      if (CPU_ISSET(core, &before_)) CPU_SET(core, &fewer);
    REQUIRE(sched_setaffinity(0, sizeof fewer, &fewer) == 0);
  }
  ~Cores() { sched_setaffinity(0, sizeof before_, &before_); }
  Cores(const Cores&) = delete;
  Cores& operator=(const Cores&) = delete;

 private:
  cpu_set_t before_{};
};

std::ptrdiff_t threads_now() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

constexpr std::int64_t kRows = 64, kWidth = 12;

Executable plan(Method method, bool watched) {
  std::visit(
      [&](auto& options) {
        options.num_micro_batches = 4;
        options.executor.stall_seconds = watched ? 60 : 0;
      },
      method);
  return parallelize(staged_mlp_step(kRows, kWidth), method, Cluster::local(8));
}

/// All elements of the state after three steps.
std::vector<std::vector<double>> trained(const Executable& executable) {
  Array x({f32, {kRows, kWidth}});
  float next = 0;
  for (float& element : x.mutable_elements_as<float>()) element = 0.01F * (next += 1);
  TrainState state = executable.init(1);
  for (int n = 0; n < 3; ++n) executable.run(state, {{"x", x}}).loss();
  std::vector<std::vector<double>> elements;
  for (const DistributedArray& tensor : state.parameters())
    elements.push_back(tensor.to_host().to_doubles());
  return elements;
}

using Threads = std::vector<std::vector<int>>;

}  // namespace

TEST_CASE("eight devices need no thread but one per core, and do what eight threads do") {
  std::thread([] {}).join();  // with the first thread ThreadSanitizer starts one of its own
  for (const int cores : {1, 2})
    for (const Method& method : {Method(DataParallel{}), Method(Zero3Parallel{}),
                                 Method(PipeshardParallel{.stages = UniformStages{2}})}) {
      CAPTURE(cores);
      const Cores few(cores);
      const int threads = std::min(cores, usable_cores());
      const std::ptrdiff_t before = threads_now();
      const Executable shared = plan(method, /*watched=*/false);
      CHECK(threads_now() == before + threads - 1);
      const Executable watched = plan(method, /*watched=*/true);
      CHECK(threads_now() == before + threads - 1 + 8);
      CHECK(trained(shared) == trained(watched));
    }
}

TEST_CASE("devices share threads if each core gets two, else they have their own") {
  const Cores one(1);
  CHECK(runtime::threads_for(1, 1) == 1);
  CHECK(runtime::threads_for(2, 1) == 1);
  CHECK(runtime::threads_for(8, 1) == 1);
  CHECK(runtime::threads_for(8, 4) == 1);
}

TEST_CASE("the devices of a mesh are spread over all threads, neighbours together") {
  using runtime::spread_over_threads;
  const std::vector<int> one_mesh(8, 0), two_meshes{0, 0, 0, 0, 1, 1, 1, 1}, alone{0, 1, 2, 3},
      uneven{0, 0, 0, 1, 1, 1, 2, 2};
  CHECK(spread_over_threads(one_mesh, 2) == Threads{{0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK(spread_over_threads(two_meshes, 2) == Threads{{0, 1, 4, 5}, {2, 3, 6, 7}});
  CHECK(spread_over_threads(alone, 2) == Threads{{0, 2}, {1, 3}});
  CHECK(spread_over_threads(uneven, 4) == Threads{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(spread_over_threads(uneven, 8) == Threads{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}});
}

}  // namespace turns_test
