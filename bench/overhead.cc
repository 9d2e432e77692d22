// What the runtime costs beside the kernels: seconds per instruction with kernels that do nothing,
// and small collectives.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

#include "src/base/thread_team.h"
#include "src/comm/group.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"
#include "src/ir/recorder.h"
#include "src/runtime/executor.h"
#include "src/tensor/kernel.h"
#include "src/train/accumulation.h"

namespace {

using namespace alpa;

void do_nothing(const KernelCall&) {}
const KernelDef kEmptyKernel{do_nothing, nullptr, nullptr};

OpDef empty_op() {
  OpDef op;
  op.name = "empty";
  op.dims = "... -> ...";
  op.in_place = InPlace::any;
  op.cpu = &kEmptyKernel;
  return op;
}
const OpDef empty = empty_op();

DeviceMesh mesh_of(int devices) { return DeviceMesh({{"x", devices, 1e-6, 1e-9}}); }

/// A step of `instructions` empty kernels on every device, with an all_reduce of 8 elements after
/// every `per_collective` of them (0: none).
spmd::SpmdProgram empty_program(int devices, int instructions, int per_collective) {
  Recorder g;
  Value value = g.input(InputKind::state, "x", {f32, {8}});
  const Value state = value;
  std::vector<bool> reduce;
  for (int i = 0; i < instructions; ++i) value = g.emit_one(empty, {value});
  g.update(state, value);
  spmd::SpmdProgram program{{mesh_of(devices)}, g.finish(), {}};
  program.specs.resize(program.graph.values.size());
  if (per_collective == 0) return program;
  for (int n = per_collective; n < static_cast<int>(program.graph.nodes.size());
       n += per_collective) {
    program.graph.nodes[n].op = &ops::all_reduce;
    program.graph.nodes[n].attributes = {{"axes", std::vector<std::int64_t>{0}}};
    program.specs[program.graph.nodes[n].operands[0]] = ShardingSpec{}.partial(0);
  }
  return program;
}

void run_steps(benchmark::State& state, Overlap overlap, int per_collective) {
  constexpr int kInstructions = 1000;
  const int devices = static_cast<int>(state.range(0));
  runtime::Executor executor(empty_program(devices, kInstructions, per_collective),
                             {.threads_per_device = 1, .overlap = overlap});
  const auto memory = executor.make_state(0);
  for (auto _ : state) executor.run(*memory, {}, {});
  state.counters["per_instruction"] = benchmark::Counter(
      kInstructions, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void BM_EmptyInstructions(benchmark::State& state) { run_steps(state, Overlap::never, 0); }
BENCHMARK(BM_EmptyInstructions)->ArgName("devices")->Arg(1)->Arg(2)->Arg(8)->UseRealTime();

void BM_EmptyInstructionsWithAllReduces(benchmark::State& state) {
  run_steps(state, Overlap::never, 10);
}
BENCHMARK(BM_EmptyInstructionsWithAllReduces)->ArgName("devices")->Arg(2)->Arg(8)->UseRealTime();

/// Stages of one device, which pass a number on. Each has as many empty kernels forward and
/// backward per micro-batch.
spmd::SpmdProgram empty_pipeline(int stages, int kernels, int micro_batches) {
  Recorder g(micro_batches);
  Value value = g.input(InputKind::state, "x", {f32, {}});
  std::vector<int> mesh_of_node{0};
  for (const Region region : {Region::forward, Region::backward}) {
    g.set_region(region);
    for (int i = 0; i < stages; ++i)
      // The first node of a stage is the transfer to it, except where the step turns round.
      for (int n = i == 0 ? 1 : 0; n <= kernels; ++n) {
        value = g.emit_one(empty, {value});
        mesh_of_node.push_back(region == Region::forward ? i : stages - 1 - i);
      }
  }
  value = micro_batch_sum("sum", value);
  g.set_region(Region::apply);
  g.metric("x", value);
  spmd::SpmdProgram program;
  for (int s = 0; s < stages; ++s)
    program.meshes.push_back(DeviceMesh({{"x", 1, 1e-6, 1e-9}}, {s}));
  program.graph = g.finish();
  program.specs.resize(program.graph.values.size());
  mesh_of_node.resize(program.graph.nodes.size());  // the sum is made on the first mesh
  for (std::size_t n = 0; n < program.graph.nodes.size(); ++n) {
    program.mesh_of_value.push_back(mesh_of_node[n]);
    if (n > 0 && mesh_of_node[n] != mesh_of_node[n - 1]) program.graph.nodes[n].op = &ops::transfer;
  }
  verify(program);
  return program;
}

/// Seconds of a step for each instruction that a device runs, waiting for others included.
void BM_EmptyPipeline(benchmark::State& state) {
  constexpr int kMicroBatches = 16;
  const int stages = static_cast<int>(state.range(0)), kernels = static_cast<int>(state.range(1));
  runtime::Executor executor(
      empty_pipeline(stages, kernels, kMicroBatches),
      {.threads_per_device = 1, .stall_seconds = static_cast<double>(state.range(2))}, "cpu",
      pipeline::one_f_one_b(stages, kMicroBatches));
  const auto memory = executor.make_state(0);
  for (auto _ : state) executor.run(*memory, {}, {});
  std::int64_t most = 0;
  for (int d = 0; d < stages; ++d) {
    const lower::DeviceProgram& device = executor.device_program(d);
    std::int64_t instructions = 0;
    for (const lower::ListRun& run : device.schedule)
      instructions += static_cast<std::int64_t>(device.lists[run.list].instructions.size());
    most = std::max(most, instructions);
  }
  state.counters["per_instruction"] =
      benchmark::Counter(static_cast<double>(most), benchmark::Counter::kIsIterationInvariantRate |
                                                        benchmark::Counter::kInvert);
}
BENCHMARK(BM_EmptyPipeline)
    ->ArgNames({"stages", "kernels", "stall_seconds"})
    ->ArgsProduct({{2, 4}, {4, 20}, {0, 60}})
    ->UseRealTime();

/// An empty step: handing work to the devices and back.
void BM_EmptyStep(benchmark::State& state) {
  runtime::Executor executor(empty_program(static_cast<int>(state.range(0)), 1, 0),
                             {.threads_per_device = 1});
  const auto memory = executor.make_state(0);
  for (auto _ : state) executor.run(*memory, {}, {});
}
BENCHMARK(BM_EmptyStep)->ArgName("devices")->Arg(1)->Arg(2)->Arg(8)->UseRealTime();

/// `rounds` calls on every member's own thread; seconds of one.
void run_group(benchmark::State& state, const std::function<void(comm::Group&, int)>& call) {
  constexpr int kRounds = 200;
  const int size = static_cast<int>(state.range(0));
  for (auto _ : state) {
    auto group = comm::make_thread_group(size);
    std::vector<std::thread> threads;
    for (int member = 0; member < size; ++member)
      threads.emplace_back([&, member] {
        for (int i = 0; i < kRounds; ++i) call(*group, member);
      });
    for (std::thread& thread : threads) thread.join();
  }
  state.counters["per_call"] = benchmark::Counter(
      kRounds, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// In place; range(1) bytes per member.
void BM_AllReduce(benchmark::State& state) {
  const int size = static_cast<int>(state.range(0));
  const std::int64_t elements = state.range(1) / 4;
  std::vector<std::vector<float>> memory(size, std::vector<float>(elements, 0));
  run_group(state, [&](comm::Group& group, int member) {
    KernelTensor tensor;
    tensor.data = reinterpret_cast<std::byte*>(memory[member].data());
    tensor.type = {f32, {elements}};
    group.all_reduce(member, {&tensor, 1}, {&tensor, 1}, Combiner::sum);
  });
}
BENCHMARK(BM_AllReduce)
    ->ArgNames({"members", "bytes"})
    ->ArgsProduct({{2, 8}, {4, 4096, 1 << 20}})
    ->UseRealTime();

/// 20 tensors of 4 KiB in calls of `range(1)`; seconds of all 20.
void BM_SmallReduceScatters(benchmark::State& state) {
  constexpr std::int64_t kTensors = 20, kElements = 1024;
  const auto size = state.range(0), per_call = state.range(1);
  std::vector<std::vector<float>> memory(size, std::vector<float>(2 * kTensors * kElements, 0));
  const std::vector<ShardedDim> dims(per_call, {0, kElements / size});
  run_group(state, [&](comm::Group& group, int member) {
    std::vector<KernelTensor> in(kTensors), out(kTensors);
    for (std::int64_t t = 0; t < kTensors; ++t) {
      auto* const data = reinterpret_cast<std::byte*>(memory[member].data() + 2 * t * kElements);
      in[t].data = data, in[t].type = {f32, {kElements}};
      out[t].data = data + 4 * kElements, out[t].type = {f32, {kElements / size}};
    }
    for (std::int64_t t = 0; t < kTensors; t += per_call)
      group.reduce_scatter(member, {&in[t], static_cast<std::size_t>(per_call)},
                           {&out[t], static_cast<std::size_t>(per_call)}, dims, Combiner::sum);
  });
}
BENCHMARK(BM_SmallReduceScatters)
    ->ArgNames({"members", "per_call"})
    ->ArgsProduct({{2, 4, 8}, {1, 20}})
    ->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
