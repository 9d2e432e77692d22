// Ranks of one class need the same memory.
#include "src/lower/rank_classes.h"

#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <map>
#include <tuple>

#include "src/ir/recorder.h"
#include "src/lower/memory_plan.h"
#include "src/plan/cost/cost_model.h"
#include "src/search/sharding/auto_shard.h"

namespace rank_classes_test {

using namespace alpa;

namespace {

TrainingStep odd_step(std::int64_t batch, std::int64_t width) {
  const TensorType data{f32, {batch, width}};
  nn::Sequential mlp;
  for (int i = 0; i < 3; ++i) mlp.add(nn::Dense(width + 5 * i)).add(nn::ReLU());
  mlp.add(nn::Dense(width));
  return training_step(
      {{"x", data}, {"y", data}},
      [mlp](const Batch& b) { return mean(square(mlp(b["x"]) - b["y"])); }, optim::Adam{});
}

/// Bytes of each rank, and the largest over the classes' first ranks.
struct Bytes {
  std::vector<std::int64_t> of_rank;
  std::int64_t largest_of_classes = 0;
  std::size_t classes = 0;
};

void check_equal(const lower::Buffer& a, const lower::Buffer& b) {
  const auto fields = [](const lower::Buffer& buffer) {
    return std::tie(buffer.type, buffer.offset, buffer.global_shape, buffer.alias_of,
                    buffer.arena_offset);
  };
  CHECK((fields(a) == fields(b)));
}

void check_equal(const lower::Instruction& a, const lower::Instruction& b) {
  CHECK(a.kind == b.kind);
  CHECK(a.node == b.node);
  CHECK(a.inputs == b.inputs);
  CHECK(a.outputs == b.outputs);
  CHECK(a.call.group == b.call.group);
  CHECK(a.call.dims == b.call.dims);
  CHECK(a.call.from_dim == b.call.from_dim);
  CHECK(a.value == b.value);
  CHECK(a.awaits == b.awaits);
  CHECK(a.workspace == b.workspace);
}

void check_equal(const lower::DeviceProgram& a, const lower::DeviceProgram& b) {
  CHECK(a.device == b.device);
  CHECK(a.rank == b.rank);
  CHECK(a.arena_bytes == b.arena_bytes);
  CHECK(a.buffer_of_value == b.buffer_of_value);
  REQUIRE(a.buffers.size() == b.buffers.size());
  for (std::size_t i = 0; i < a.buffers.size(); ++i) check_equal(a.buffers[i], b.buffers[i]);
  REQUIRE(a.lists.size() == b.lists.size());
  for (std::size_t l = 0; l < a.lists.size(); ++l) {
    REQUIRE(a.lists[l].instructions.size() == b.lists[l].instructions.size());
    for (std::size_t i = 0; i < a.lists[l].instructions.size(); ++i)
      check_equal(a.lists[l].instructions[i], b.lists[l].instructions[i]);
  }
}

template <class Method>
Bytes bytes_of(const TrainingStep& step, const std::vector<int>& mesh, int micro_batches) {
  int devices = 1;
  for (int size : mesh) devices *= size;
  const CompiledStep compiled = plan_only(
      step, Method{.num_micro_batches = micro_batches, .mesh_shape = mesh, .solver_seconds = 5},
      Cluster::local(devices));
  const spmd::SpmdProgram& program = *compiled.program;
  Bytes bytes;
  const std::vector<lower::DeviceProgram> all = lower::programs_of_all(
      program, lower::lower_classes(program, true, lower::memory_rules("cpu", 1)));
  for (int rank = 0; rank < devices; ++rank) {
    const lower::DeviceProgram alone =
        lower::lower(program, rank, true, lower::memory_rules("cpu", 1));
    check_equal(all[rank], alone);
    bytes.of_rank.push_back(alone.arena_bytes);
  }
  std::vector<int> firsts;
  for (const std::vector<int>& alike : lower::device_classes(program))
    firsts.push_back(alike.front());
  CHECK(firsts.front() == 0);
  bytes.classes = firsts.size();
  for (int rank : firsts)
    bytes.largest_of_classes = std::max(bytes.largest_of_classes, bytes.of_rank[rank]);
  return bytes;
}

template <class Method>
void check_peak(std::int64_t batch, std::int64_t width, const std::vector<int>& mesh,
                int micro_batches) {
  CAPTURE(batch);
  CAPTURE(width);
  const Bytes bytes = bytes_of<Method>(odd_step(batch, width), mesh, micro_batches);
  CHECK(bytes.largest_of_classes == *std::max_element(bytes.of_rank.begin(), bytes.of_rank.end()));
  CHECK(bytes.classes <= bytes.of_rank.size());
}

}  // namespace

TEST_CASE(
    "programs made from those of their classes are those lowered alone; the classes' peak is that "
    "of all") {
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

TEST_CASE("what an update saves has on every device the layout of its source") {
  Recorder g(1);
  const TensorType type{f32, {13, 7}};
  const Value a = g.input(InputKind::state, "a", type), b = g.input(InputKind::state, "b", type);
  g.update(a, b);
  g.update(b, a);
  const Graph graph = g.finish();
  const Cluster cluster = Cluster::local(4);
  const spmd::SpmdProgram program = spmd::partition(
      graph, intra_op::auto_shard(graph, cluster.mesh({4}), cost::CostModel::of(cluster),
                                  intra_op::zero3_options()));
  const std::vector<lower::DeviceProgram> all =
      lower::programs_of_all(program, lower::lower_classes(program, false));
  REQUIRE(all.size() == 4);
  CHECK(lower::device_classes(program).size() == 2);  // the last one has less
  for (int device = 0; device < 4; ++device) {
    CHECK(all[device].buffers.size() > 2);  // one of them saved
    check_equal(all[device], lower::lower(program, device, false));
  }
}

}  // namespace rank_classes_test
