// Collectives of f32 among processes that have one device each, and what the same message sizes
// take in MPI's own collectives (bench/peers/mpi_collectives.c, with the same output). Prints on
// rank 0 a JSON line per kind and size: the median seconds of a call, behind one that is not
// counted.
//   mpirun -n 4 bench_collectives [ROUNDS]        bench/processes.py runs both in turns
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "alpa/base/program.h"
#include "src/comm/group.h"
#include "src/processes/world.h"

using namespace alpa;

namespace {

constexpr std::int64_t kSmallest = 4096, kLargest = 64 << 20;

/// Short calls are repeated more often: processes do not begin together.
int calls_of(std::int64_t bytes, int rounds) {
  constexpr std::int64_t kBytes = 1 << 20, kMost = 20;
  return rounds * static_cast<int>(std::clamp<std::int64_t>(kBytes / bytes, 1, kMost));
}

/// A group of all processes, one member each.
class Bench {
 public:
  explicit Bench(processes::World& world) : world_(world) {
    comm::GroupPlaces places;
    for (int rank = 0; rank < world.size(); ++rank) places.ranks.push_back(rank);
    places.rank = world.rank();
    places.first_tag = world.reserve_tags(comm::tags_of_group(places.ranks));
    places.courier = &world.courier();
    group_ = comm::make_group(places);
  }

  /// Median seconds of `calls` calls on tensors of `bytes` as a whole.
  double run(CollectiveKind kind, std::int64_t bytes, int calls) {
    const std::int64_t whole = bytes / 4, shard = whole / world_.size();
    std::vector<float> all(whole, 1.0F), part(shard, 1.0F);
    const ShardedDim dim{0, shard};
    KernelTensor big{reinterpret_cast<std::byte*>(all.data()), {f32, {whole}}, {0}, {whole}};
    KernelTensor small{reinterpret_cast<std::byte*>(part.data()), {f32, {shard}}, {0}, {shard}};
    const bool gathers = kind == CollectiveKind::all_gather;
    const KernelTensor& in = gathers ? small : big;
    KernelTensor& out = kind == CollectiveKind::reduce_scatter ? small : big;
    const int self = world_.rank();
    const comm::Call call{kind, {&in, 1}, {&out, 1}, Combiner::sum, {&dim, 1}};
    group_->reserve(self, call);
    std::vector<double> seconds;
    for (int i = 0; i <= calls; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      group_->run(self, call);
      seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    const auto median = seconds.begin() + 1 + calls / 2;
    std::nth_element(seconds.begin() + 1, median, seconds.end());
    return *median;
  }

 private:
  processes::World& world_;
  std::unique_ptr<comm::Group> group_;
};

int run(int argc, char** argv) {
  processes::World* const world = processes::world();
  require(world != nullptr, "start it as several processes: mpirun -n 4 {}", argv[0]);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  Bench bench(*world);
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter})
    for (std::int64_t bytes = kSmallest; bytes <= kLargest; bytes *= 4)
      fmt::print("{{\"kind\": \"{}\", \"bytes\": {}, \"processes\": {}, \"seconds\": {:.9f}}}\n",
                 name_of(kind), bytes, world->size(),
                 bench.run(kind, bytes, calls_of(bytes, rounds)));
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("bench_collectives", run, argc, argv); }
