// Updates that run beside the backward pass: the numbers are those of
// updates at the end, bit for bit.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "emulation.h"
#include "src/ops/all_ops.h"
#include "support/mlp_step.h"

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

}  // namespace

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
