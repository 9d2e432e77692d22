// Optimizer state split over all devices beside the tensor parallelism that the planner chooses.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "src/ir/op_def.h"
#include "support/error_text.h"
#include "support/temporary_file.h"

namespace sharded_optimizer_test {

using namespace alpa;
using alpa::testing::error_of;

namespace {

constexpr std::int64_t kBatch = 24, kDim = 32, kHidden = 48;

TrainingStep make_step() {
  const nn::Sequential mlp{nn::Dense(kHidden), nn::Tanh(), nn::Dense(kDim), nn::Tanh(),
                           nn::Dense(kHidden), nn::Tanh(), nn::Dense(kDim)};
  return training_step(
      {{"x", {f32, {kBatch, kDim}}}, {"y", {f32, {kBatch, kDim}}}},
      [mlp](const Batch& b) { return mean(square(mlp(b["x"]) - b["y"])); },
      optim::Adam{.learning_rate = 1e-2});
}

/// The batch on the first axis of 2x2 devices: the planner may use the other for tensor
/// parallelism.
ShardParallel on_two_axes(bool shards, int micro_batches) {
  return {.num_micro_batches = micro_batches,
          .mesh_shape = {2, 2},
          .batch_mesh_axis = 0,
          .shard_optimizer_state = shards};
}

/// Bytes that the first device, which has the most, holds of inputs that `counts` picks.
template <class Counts>
std::int64_t bytes_held(const Executable& train, Counts counts) {
  std::int64_t bytes = 0;
  for (const Input& input : train.graph().inputs)
    if (counts(input))
      bytes +=
          shard_bytes(train.graph().type(input.value), train.plan().sharding().specs[input.value],
                      train.plan().sharding().mesh);
  return bytes;
}

bool is_optimizer_state(const Input& input) { return !input.of.empty(); }
bool is_sum_of_gradients(const Input& input) {
  return input.kind == InputKind::accumulator && input.name.ends_with(".gradient");
}
/// Forward products whose result is split over the second axis, where the batch is not.
int tensor_parallel_products(const Executable& train) {
  int products = 0;
  for (const Node& node : train.graph().nodes)
    products +=
        node.op->name == std::string_view("einsum") && node.region == Region::forward &&
        to_string(train.plan().sharding().specs[node.results[0]]).find("@1") != std::string::npos;
  return products;
}

std::int64_t whole_bytes(const Executable& train, bool (*counts)(const Input&)) {
  std::int64_t bytes = 0;
  for (const Input& input : train.graph().inputs)
    if (counts(input)) bytes += train.graph().type(input.value).bytes();
  return bytes;
}

std::vector<double> losses(const Executable& train) {
  const Dataset data = linear_dataset(kBatch, kDim, 1);
  TrainState state = train.init(0);
  std::vector<double> values;
  for (int i = 0; i < 5; ++i)
    values.push_back(train.run(state, {{"x", data.x}, {"y", data.y}}).loss());
  CHECK(train.memory_bytes() == train.measured_bytes(state));
  return values;
}

}  // namespace

TEST_CASE("sharded optimizer state takes a quarter on four devices, and training stays the same") {
  const std::vector<double> serial = losses(parallelize(make_step(), Serial{}, Cluster::local(1)));
  for (int parts : {1, 3}) {
    CAPTURE(parts);
    const Executable usual = parallelize(make_step(), on_two_axes(false, parts), Cluster::local(4));
    const Executable sharded =
        parallelize(make_step(), on_two_axes(true, parts), Cluster::local(4));
    // Every extent is divisible by 4.
    CHECK(bytes_held(sharded, is_optimizer_state) * 4 == whole_bytes(sharded, is_optimizer_state));
    CHECK(bytes_held(sharded, is_sum_of_gradients) * 4 ==
          whole_bytes(sharded, is_sum_of_gradients));
    CHECK((parts > 1 || tensor_parallel_products(sharded) > 0));
    CHECK(bytes_held(usual, is_optimizer_state) * 4 > whole_bytes(usual, is_optimizer_state));
    CHECK(sharded.memory_bytes() < usual.memory_bytes());
    const std::vector<double> values = losses(sharded);
    for (std::size_t i = 0; i < values.size(); ++i)
      CHECK(values[i] == doctest::Approx(serial[i]).epsilon(1e-3));
  }
}

TEST_CASE("a plan from a file that holds optimizer state whole is refused with the option") {
  const alpa::testing::TemporaryFile file("sharded_optimizer_test.json", "");
  const std::string& path = file.path();
  const TrainingStep step = make_step();
  parallelize(step, on_two_axes(true, 3), Cluster::local(4)).save_plan(path);
  CHECK_NOTHROW(load_plan(step, on_two_axes(true, 3), Cluster::local(4), path));
  parallelize(step, DataParallel{.num_micro_batches = 3}, Cluster::local(4)).save_plan(path);
  CHECK_NOTHROW(load_plan(step, on_two_axes(false, 3), Cluster::local(4), path));
  CHECK(error_of([&] { load_plan(step, on_two_axes(true, 3), Cluster::local(4), path); }) ==
        "plan file " + path +
            ": the plan splits \"0.kernel.gradient\" over 1 of 4 devices, but "
            "shard_optimizer_state is set; plan again with it, or load the plan without it");
}

TEST_CASE("the option holds under every method, or is refused") {
  const Executable zero2 =
      parallelize(make_step(), Zero2Parallel{.num_micro_batches = 3, .shard_optimizer_state = true},
                  Cluster::local(4));
  CHECK(bytes_held(zero2, is_optimizer_state) * 4 == whole_bytes(zero2, is_optimizer_state));
  CHECK(bytes_held(zero2, is_sum_of_gradients) * 4 == whole_bytes(zero2, is_sum_of_gradients));
  CHECK(error_of([] {
          parallelize(make_step(), DataParallel{.shard_optimizer_state = true}, Cluster::local(2));
        }) ==
        "parallelize: method data holds optimizer state on every device, but "
        "shard_optimizer_state is set; use Zero2Parallel, or ShardParallel with it");
}

}  // namespace sharded_optimizer_test
