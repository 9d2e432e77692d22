// src/api/profile.cc — measures the CPU devices of this machine with steps that they run
#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "alpa/nn/loss.h"
#include "alpa/ops/ops.h"
#include "alpa/parallelize.h"
#include "alpa/train/training_step.h"
#include "src/api/links.h"
#include "src/base/timing.h"
#include "src/ir/op_def.h"
#include "src/processes/world.h"
#include "src/runtime/executor.h"
#include "src/spmd/program.h"

namespace alpa {
namespace {

const std::vector<std::int64_t> kProductSizes = {16, 64, 256, 1024}, kOtherProductSizes = {32, 256};
const std::vector<std::int64_t> kLoopElements = {1 << 8,  1 << 11, 1 << 14,
                                                 1 << 17, 1 << 20, 1 << 22};
const std::vector<std::int64_t> kReducedElements = {1 << 8, 1 << 12, 1 << 16, 1 << 20, 1 << 22};

/// An instruction that was measured: its node, and median seconds over steps.
struct Measured {
  const Node& node;
  const Graph& graph;
  double seconds;

  const TensorType& operand(int i) const { return graph.type(node.operands[i]); }
  const TensorType& result() const { return graph.type(node.results[0]); }
};

/// The seconds of one instruction on all devices of one step. What devices do apart ends at
/// different times; a collective begins when the last of them comes.
double joined(const Node& node, std::vector<double> of_devices) {
  return spmd::is_collective(node) ? *std::min_element(of_devices.begin(), of_devices.end())
                                   : median(std::move(of_devices));
}

/// Whether another round is measured; in a launch, rank 0 says so for all.
bool goes_on(bool wanted) {
  if (processes::World* const world = processes::world())
    world->broadcast(reinterpret_cast<std::byte*>(&wanted), sizeof wanted, 0);
  return wanted;
}

/// Runs a step with every tensor whole on every device, at least three times and until `seconds`
/// have passed, and visits its instructions. `model` gives what to report. Batch inputs "0", "1", …
/// have a row per device and these numbers of columns.
void measure(const std::function<Value(const Batch&)>& model,
             const std::vector<std::int64_t>& columns, int devices, double seconds,
             const std::function<void(const Measured&)>& visit) {
  std::vector<BatchInput> inputs;
  BatchData batch;
  for (std::int64_t width : columns) {
    const Shape shape{devices, width};
    inputs.push_back({std::to_string(inputs.size()), {f32, shape}});
    batch.emplace(
        inputs.back().name,
        Array(std::vector<float>(static_cast<std::size_t>(devices * width), 0.5F), shape));
  }
  DataParallel method;
  method.executor.overlap = Overlap::never;
  method.executor.bucket_bytes = 0;
  method.executor.record_times = true;
  const Executable step =
      parallelize(evaluation_step(inputs, model), method, Cluster::local(devices));
  TrainState state = step.init(0);
  std::map<int, std::vector<double>> of_steps;  // by node
  const Stopwatch watch;
  for (int round = -1; goes_on(round < 3 || watch.seconds() < seconds); ++round) {
    step.run(state, batch).loss();
    std::map<int, std::vector<double>> of_devices;
    for (const runtime::DeviceTimes& times : step.executor().times())
      for (const runtime::TimedInstruction& timed : times.own)
        of_devices[timed.instruction->node].push_back(1e-9 *
                                                      static_cast<double>(timed.end - timed.begin));
    const Graph& graph = step.program().graph;
    if (round >= 0)  // the first step touches memory for the first time
      for (auto& [n, own] : of_devices)
        of_steps[n].push_back(joined(graph.nodes[n], std::move(own)));
  }
  const Graph& graph = step.program().graph;
  for (auto& [n, own] : of_steps) visit({graph.nodes[n], graph, median(std::move(own))});
}

/// Means of values, added up, and of the batch, which every step needs.
Value reported(const Batch& batch, const std::vector<Value>& values) {
  Value sum = mean(batch["0"]);
  for (Value value : values) sum = sum + cast(mean(value), f32);
  return sum;
}

/// [m, k] · [k, n] of all sizes, each with either operand transposed, too.
MeasuredRates::Products products(DType dtype, const std::vector<std::int64_t>& sizes, int devices,
                                 double seconds) {
  const auto model = [&](const Batch& batch) {
    std::map<Shape, Value> matrices;
    const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
      auto [found, added] = matrices.try_emplace({rows, columns});
      if (added)
        found->second =
            batch.builder().parameter(fmt::format("{}x{}", rows, columns), {dtype, {rows, columns}},
                                      Initializer::normal(0, 1));
      return found->second;
    };
    std::vector<Value> all;
    for (std::int64_t m : sizes)
      for (std::int64_t n : sizes)
        for (std::int64_t k : sizes)
          for (const auto& product : {einsum("mk,kn->mn", matrix(m, k), matrix(k, n)),
                                      einsum("mk,nk->mn", matrix(m, k), matrix(n, k)),
                                      einsum("km,kn->mn", matrix(k, m), matrix(k, n))})
            all.push_back(product);
    return reported(batch, all);
  };
  std::map<std::vector<std::int64_t>, std::vector<double>> rates;  // by m, n, k
  measure(model, {1}, devices, seconds, [&](const Measured& measured) {
    if (measured.node.op->work != Work::heavy) return;
    const Shape& a = measured.operand(0).shape;
    const Shape& c = measured.result().shape;
    const std::int64_t k = a[0] * a[1] / c[0];
    rates[{c[0], c[1], k}].push_back(2.0 * static_cast<double>(c[0] * c[1] * k) / measured.seconds);
  });
  MeasuredRates::Products result{sizes, {}};
  for (auto& [shape, of_shape] : rates) result.flops_per_second.push_back(median(of_shape));
  return result;
}

/// Whether all operands, of which there are some, are single numbers.
bool reads_numbers(const Measured& measured) {
  const std::vector<int>& operands = measured.node.operands;
  return !operands.empty() && std::all_of(operands.begin(), operands.end(), [&](int value) {
    return measured.graph.type(value).elements() == 1;
  });
}

/// Loops over tensors that the cache holds as far as they fit, as between layers.
void measure_loops(int devices, double seconds, DeviceModel& device) {
  const auto model = [&](const Batch& batch) {
    std::vector<Value> all;
    for (std::int64_t elements : kLoopElements) {
      Value y = batch.builder().parameter(fmt::format("loop{}", elements), {f32, {elements}},
                                          Initializer::normal(0, 1));
      for (int i = 0; i < 3; ++i) {
        y = relu(y + mean(y));  // waits for all of y
        all.push_back(y);
      }
    }
    return reported(batch, all);
  };
  std::map<std::int64_t, std::vector<double>> rates;  // by bytes
  std::vector<double> instructions;
  measure(model, {1}, devices, seconds, [&](const Measured& measured) {
    const std::int64_t elements = measured.result().elements();
    if (elements == 1 && !spmd::is_collective(measured.node) && reads_numbers(measured))
      instructions.push_back(measured.seconds);
    if (elements < kLoopElements.front()) return;
    std::int64_t bytes = measured.result().bytes();
    for (int value : measured.node.operands) bytes += measured.graph.type(value).bytes();
    rates[bytes].push_back(static_cast<double>(bytes) / measured.seconds);
  });
  for (auto& [bytes, of_bytes] : rates) {
    device.measured.loop_bytes.push_back(bytes);
    device.measured.loop_bytes_per_second.push_back(median(of_bytes));
  }
  device.memory_bytes_per_second = device.measured.loop_bytes_per_second.back();
  if (!instructions.empty()) device.launch_seconds = median(instructions);
}

/// α and β of the link that come closest to the measured all-reduces, all of the same weight.
Link measured_link(int devices, double seconds) {
  const auto model = [&](const Batch& batch) {
    std::vector<Value> all;
    for (std::size_t i = 0; i < kReducedElements.size(); ++i)
      all.push_back(square(sum(batch[std::to_string(i)], {0})));
    return reported(batch, all);
  };
  AllReduces measured;
  measure(model, kReducedElements, devices, seconds, [&](const Measured& one) {
    if (spmd::is_collective(one.node) && one.result().elements() > 1)
      measured.emplace_back(static_cast<double>(one.result().bytes()), one.seconds);
  });
  return fitted_link(devices, measured);
}

}  // namespace

Cluster profile(int devices, double seconds) {
  Cluster cluster = Cluster::local(devices);
  const double part = seconds / 5;
  for (const auto& [dtype, sizes] :
       {std::pair(f32, kProductSizes), {f64, kOtherProductSizes}, {bf16, kOtherProductSizes}}) {
    const MeasuredRates::Products rates = products(dtype, sizes, devices, part);
    cluster.device.measured.products[dtype] = rates;
    cluster.device.flops_per_second[dtype] = rates.flops_per_second.back();
  }
  measure_loops(devices, part, cluster.device);
  processes::World* const world = processes::world();
  if (!world) {
    if (devices > 1) cluster.within_host = cluster.between_hosts = measured_link(devices, part);
    return cluster;
  }
  measure_links(*world, cluster, part);
  const std::string text = world->from_rank_0([&] { return cluster.to_json(); });
  return Cluster::from_json(text, "the rates of rank 0");
}

}  // namespace alpa
