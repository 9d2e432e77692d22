// A two-layer MLP from program text to plan to device programs; the texts are in tests/golden/mlp.
#include <doctest/doctest.h>

#include "alpa/parallelize.h"
#include "kernels/cpu/isa.h"
#include "src/lower/lower_program.h"
#include "src/lower/memory_plan.h"
#include "support/golden.h"
#include "support/two_meshes.h"

namespace mlp_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// Scratch of products depends on the instruction set.
[[maybe_unused]] const bool kOneForAll = cpu::select_isa("baseline");

constexpr int kMicroBatches = 4;

/// mean((tanh(x·w0 + b0)·w1 - y)²) over 4 micro-batches of 16 rows, plain gradient descent.
Graph mlp_step() {
  return training_graph({f32, {64, 256}}, {f32, {64, 128}}, one_layer_per_stage(2, 1024),
                        {.num_micro_batches = kMicroBatches});
}

/// Two hosts of two devices; a host's link is ten times as fast as that between hosts.
Cluster small_cluster() {
  return {.num_hosts = 2,
          .devices_per_host = 2,
          .device = {.memory_bytes = std::int64_t{1} << 30,
                     .flops_per_second = {{f32, 1e11}},
                     .memory_bytes_per_second = 1e10,
                     .launch_seconds = 1e-6},
          .within_host = {1e-6, 1e-10},
          .between_hosts = {1e-5, 1e-9}};
}

/// Sanitizer builds guard buffers, so that offsets differ.
bool has_golden_offsets() { return lower::memory_rules("cpu").guard_bytes == 0; }

/// Plans the step whose text is in step.txt, and checks the plan and one device program per class.
template <class Method>
void check_method(const std::string& name, const std::vector<int>& mesh_shape) {
  const Graph graph = parse_graph(golden_text("mlp/step.txt"), all_ops());
  Method method;
  method.num_micro_batches = kMicroBatches;
  method.mesh_shape = mesh_shape;
  method.executor = {.threads_per_device = 1, .overlap = Overlap::always};
  const TrainingStep step{
      .inputs = {}, .trace = [&](const TraceOptions&) { return graph; }, .scalars = {}};
  const CompiledStep compiled = plan_only(step, method, small_cluster());
  check_golden("mlp/" + name + ".plan.json", to_json(compiled.plan.sharding(), compiled.graph));
  if (!has_golden_offsets()) return;
  std::string devices;
  for (const lower::DeviceProgram& device : compiled.lowered->firsts)
    devices += to_string(device, *compiled.program);
  check_golden("mlp/" + name + ".devices.txt", devices);
}

}  // namespace

TEST_CASE("the step's text is that of the traced step, and reads back as the same graph") {
  check_golden("mlp/step.txt", to_string(mlp_step()));
  CHECK(parse_graph(golden_text("mlp/step.txt"), all_ops()) == mlp_step());
}

TEST_CASE("data parallelism: plan and device programs") { check_method<DataParallel>("data", {4}); }

TEST_CASE("ZeRO-3: plan and device programs") { check_method<Zero3Parallel>("zero3", {4}); }

TEST_CASE("automatic sharding on 2x2 devices: plan and device programs") {
  check_method<ShardParallel>("shard", {2, 2});
}

TEST_CASE("two stages under 1F1B: partitioned program and device programs") {
  const Graph graph = parse_graph(golden_text("mlp/step.txt"), all_ops());
  const Layouts rows{{"cut0", "S0@0"}, {"y", "S0@0"}, {"loss.sum", "P+@0"}, {"gradient2", "P+@0"}};
  const spmd::SpmdProgram program =
      on_meshes(graph, {{mesh_from(0, {1}), {}}, {mesh_from(1, {2}), rows}}, 0);
  check_golden("mlp/two_stages.program.txt", to_string(program));
  if (!has_golden_offsets()) return;
  std::string devices;
  for (int device : {0, 2})
    devices += to_string(lower::lower(program, device, true, lower::memory_rules("cpu"),
                                      pipeline::one_f_one_b(2, kMicroBatches)),
                         program);
  check_golden("mlp/two_stages.devices.txt", devices);
}

}  // namespace mlp_test
