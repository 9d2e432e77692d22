// Ranks of one class need the same memory.
#include "alpa/pipeline/rank_classes.h"

#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <map>

#include "alpa/runtime/memory_plan.h"

using namespace alpa;

namespace {

TrainingStep odd_step(std::int64_t batch, std::int64_t width) {
  const TensorType data{f32, {batch, width}};
  nn::Sequential mlp;
  for (int i = 0; i < 3; ++i) mlp.add(nn::Dense(width + 5 * i)).add(nn::ReLU());
  mlp.add(nn::Dense(width));
  return training_step(
      {{"x", data}, {"y", data}}, [mlp](const Batch& b) { return mean(square(mlp(b["x"]) - b["y"])); },
      optim::Adam{});
}

/// Bytes of each rank, and the largest over the classes' first ranks.
struct Bytes {
  std::vector<std::int64_t> of_rank;
  std::int64_t largest_of_classes = 0;
  std::size_t classes = 0;
};

template <class Method>
Bytes bytes_of(const TrainingStep& step, const std::vector<int>& mesh, int micro_batches) {
  int devices = 1;
  for (int size : mesh) devices *= size;
  const SpmdProgram program =
      plan_only(step, Method{.num_micro_batches = micro_batches, .mesh_shape = mesh, .solver_seconds = 5},
                Cluster::local(devices))
          .program;
  Bytes bytes;
  for (int rank = 0; rank < devices; ++rank)
    bytes.of_rank.push_back(lower(program, rank, true, memory_rules("cpu", 1)).arena_bytes);
  const std::vector<int> firsts = first_devices_of_classes(program);
  CHECK(firsts.front() == 0);
  bytes.classes = firsts.size();
  for (int rank : firsts)
    bytes.largest_of_classes = std::max(bytes.largest_of_classes, bytes.of_rank[rank]);
  return bytes;
}

template <class Method>
void check_peak(std::int64_t batch, std::int64_t width, const std::vector<int>& mesh, int micro_batches) {
  CAPTURE(batch);
  CAPTURE(width);
  const Bytes bytes = bytes_of<Method>(odd_step(batch, width), mesh, micro_batches);
  CHECK(bytes.largest_of_classes == *std::max_element(bytes.of_rank.begin(), bytes.of_rank.end()));
  CHECK(bytes.classes <= bytes.of_rank.size());
}

}  // namespace

TEST_CASE("the peak of the classes' first ranks is that of all ranks, even or not") {
  for (std::int64_t batch : {16, 21})
    for (std::int64_t width : {8, 13})
      for (int micro_batches : {1, batch == 21 ? 3 : 2})
        for (const std::vector<int>& mesh : {std::vector<int>{5}, std::vector<int>{2, 3}}) {
          check_peak<DataParallel>(batch, width, mesh, micro_batches);
          check_peak<Zero3Parallel>(batch, width, mesh, micro_batches);
          check_peak<ShardParallel>(batch, width, mesh, micro_batches);
        }
}

TEST_CASE("evenly split devices are one class") {
  CHECK(bytes_of<DataParallel>(odd_step(64, 8), {4, 4}, 1).classes == 1);
  CHECK(bytes_of<DataParallel>(odd_step(50, 8), {4, 4}, 1).classes > 1);
}
