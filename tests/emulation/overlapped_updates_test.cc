// Updates that run beside the backward pass: the numbers are those of
// updates at the end, bit for bit.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "emulation.h"
#include "src/ops/all_ops.h"
#include "support/mlp_step.h"
#include "support/staged_mlp.h"

namespace overlapped_updates_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

Serial method_of(bool overlap) {
  Serial method;
  method.executor.tune = false;
  method.executor.overlap_updates = overlap;
  return method;
}

std::map<std::string, Array> batch_of_ones() {
  std::map<std::string, Array> batch;
  for (const char* name : {"x", "y"}) {
    Array array({f32, {64, 128}});
    float next = 0;
    for (float& x : array.mutable_elements_as<float>()) x = std::sin(next += 0.7F);
    batch.emplace(name, array);
  }
  return batch;
}

struct Run {
  std::vector<double> losses;
  Array kernel;  ///< of the first layer, afterwards
  emulation::GraphNodes nodes;
  std::int64_t planned, measured;
};

Run run(bool overlap, std::uint64_t seed) {
  emulation::restart({.seed = seed});
  Executable executable =
      parallelize(dense_mlp_step<nn::ReLU>(f32, 10), method_of(overlap), Cluster::local(1, "cuda"));
  TrainState state = executable.init(0);
  const std::map<std::string, Array> batch = batch_of_ones();
  Run result;
  for (int i = 0; i < 6; ++i) result.losses.push_back(executable.run(state, batch).loss());
  result.kernel = state["0.kernel"].to_host();
  result.nodes = emulation::last_graph();
  result.planned = executable.memory_bytes();
  result.measured = executable.measured_bytes(state);
  return result;
}

constexpr int kRows = 32, kWidth = 16;

/// Losses and parameters of three steps of four layers, the second and third of which are captured.
std::vector<double> numbers_of(Method method, bool overlap, int devices) {
  std::visit(
      [&](auto& chosen) {
        chosen.executor.tune = false;
        chosen.executor.overlap_updates = overlap;
        chosen.executor.capture = Capture::always;
      },
      method);
  const Executable executable =
      parallelize(staged_mlp_step(kRows, kWidth), method, Cluster::local(devices, "cuda"));
  TrainState state = executable.init(0);
  Array x({f32, {kRows, kWidth}});
  float next = 0;
  for (float& element : x.mutable_elements_as<float>()) element = std::sin(next += 0.7F);
  std::vector<double> numbers;
  for (int i = 0; i < 3; ++i) numbers.push_back(executable.run(state, {{"x", x}}).loss());
  for (const std::string& name : state.names())
    for (const double element : state[name].to_host().to_doubles()) numbers.push_back(element);
  return numbers;
}

std::vector<Method> methods_of(int devices, int micro_batches) {
  std::vector<Method> methods = {DataParallel{.num_micro_batches = micro_batches},
                                 Zero2Parallel{.num_micro_batches = micro_batches},
                                 Zero3Parallel{.num_micro_batches = micro_batches},
                                 ShardParallel{.num_micro_batches = micro_batches}};
  for (const int stages : {2, 4})
    if (stages <= devices)
      methods.push_back(
          PipeshardParallel{.num_micro_batches = micro_batches, .stages = UniformStages{stages}});
  return methods;
}

}  // namespace

TEST_CASE("updates beside the backward pass change no bit, whatever devices, method and cards") {
  for (const int devices : {2, 4})
    for (const int micro_batches : {1, 2})
      for (const Method& method : methods_of(devices, micro_batches))
        for (const int cards : {1, devices}) {
          CAPTURE(devices);
          CAPTURE(micro_batches);
          CAPTURE(method.index());
          CAPTURE(cards);
          emulation::restart({.devices = cards});
          CHECK(numbers_of(method, true, devices) == numbers_of(method, false, devices));
        }
  emulation::restart({});
}

TEST_CASE(
    "updates beside the backward pass change no bit, in whatever order the graph's nodes run") {
  const Run at_end = run(false, 1);
  CHECK(at_end.nodes.kernels == 35);
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    CAPTURE(seed);
    const Run overlapped = run(true, seed);
    CHECK(overlapped.nodes.kernels == 44);  // ten of Adam instead of one
    CHECK(overlapped.losses == at_end.losses);
    CHECK(overlapped.kernel.bytes() == at_end.kernel.bytes());
    CHECK(std::memcmp(overlapped.kernel.data(), at_end.kernel.data(), overlapped.kernel.bytes()) ==
          0);
    CHECK(overlapped.measured == overlapped.planned);
    CHECK(overlapped.planned <= 1.001 * at_end.planned);
  }
}

}  // namespace overlapped_updates_test
