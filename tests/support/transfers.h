#pragma once
/// Programs that only move tensors from one mesh to another, on all ways.
#include <algorithm>
#include <random>

#include "src/ir/input.h"
#include "src/ir/recorder.h"
#include "src/plan/cost/cost_model.h"
#include "src/runtime/devices.h"
#include "src/spmd/rewrite.h"
#include "support/two_meshes.h"

namespace alpa::testing {

/// A tensor that goes from the first mesh to the second.
struct Moved {
  TensorType type;
  ShardingSpec from, to;
  cost::PlannedTransfer way;
};

/// Batch inputs "x0", "x1", … on mesh 0, which become outputs "y0", "y1", … on mesh 1.
inline spmd::SpmdProgram moving_program(const DeviceMesh& a, const DeviceMesh& b,
                                        const std::vector<Moved>& tensors, int micro_batches) {
  Recorder g(micro_batches);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    g.input(InputKind::batch, fmt::format("x{}", i), tensors[i].type);
  spmd::SpmdProgram program;
  program.meshes = {a, b};
  program.graph = g.finish();
  for (const Moved& moved : tensors) {
    program.specs.push_back(moved.from);
    program.mesh_of_value.push_back(0);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Node node;
    node.region = Region::forward;
    node.name = fmt::format("move{}", i);
    const int value =
        append_transfer(program, program.graph.inputs[i].value, 1, tensors[i].way, node);
    program.graph.outputs.push_back({fmt::format("y{}", i), value});
  }
  verify(program);
  return program;
}

/// A spec of the tensor on a mesh, drawn at random.
inline ShardingSpec random_spec(const TensorType& type, const DeviceMesh& mesh,
                                std::mt19937& random) {
  const std::vector<ShardingSpec> specs = cost::all_specs(type, mesh, cost::kNoPartials);
  return specs[random() % specs.size()];
}

/// The same of an input, whose dimensions are split by ascending axes.
inline ShardingSpec random_input_spec(const TensorType& type, const DeviceMesh& mesh,
                                      std::mt19937& random) {
  while (true) {
    const ShardingSpec spec = random_spec(type, mesh, random);
    bool ascending = true;
    for (int dim = 0; dim < type.rank(); ++dim) {
      const std::vector<int> axes = spec.axes_of(dim);
      ascending = ascending && std::is_sorted(axes.begin(), axes.end());
    }
    if (ascending) return spec;
  }
}

/// Way number `kind` of a tensor: sent directly, broadcast, by any other spec, or the cheapest.
inline cost::PlannedTransfer way_of(int kind, const TensorType& type, const cost::MeshLayout& from,
                                    const cost::MeshLayout& to, const Cluster& cluster,
                                    std::mt19937& random) {
  cost::PlannedTransfer way;
  way.route.devices_per_host = cluster.devices_per_host;
  way.arrives = to.spec;
  if (kind == 1) {
    way.strategy = cost::TransferStrategy::broadcast;
    way.route.chunks = 1 + static_cast<int>(random() % 4);
  }
  if (kind == 2) {
    way.strategy = cost::TransferStrategy::local_reshard;
    way.arrives = random_spec(type, to.mesh, random);
    way.gather = *cost::find_reshard(type, way.arrives, to.spec, to.mesh,
                                     cost::CostModel::of(cluster).reshard);
  }
  return kind == 3 ? cost::plan_transfer(type, from, to, cluster) : way;
}

/// Shapes of one to three dimensions, few of which are multiples of anything.
inline TensorType random_type(std::mt19937& random) {
  TensorType type{f32, {}};
  for (unsigned rank = 1 + random() % 3; rank > 0; --rank)
    type.shape.push_back(1 + static_cast<std::int64_t>(random() % 9));
  return type;
}

/// Devices that run a moving program on numbers 0, 1, 2, … in every input.
class MovingRun {
 public:
  MovingRun(const spmd::SpmdProgram& program, runtime::Devices& devices)
      : program_(program), devices_(devices), memory_(devices.allocate()) {
    const Graph& graph = program.graph;
    for (const Input& input : graph.inputs) {
      const std::int64_t elements = graph.type(input.value).elements() * graph.num_micro_batches;
      given_.emplace_back(elements);
      for (std::int64_t i = 0; i < elements; ++i) given_.back()[i] = static_cast<float>(i);
    }
    runtime::StepInputs inputs;
    inputs.step = 1;
    for (const std::vector<float>& array : given_)
      inputs.batch.push_back(reinterpret_cast<const std::byte*>(array.data()));
    inputs.scalars.resize(given_.size());
    devices.start(*memory_, inputs);
    devices.finish();
  }

  /// Parts of outputs that are not, element by element, what was sent.
  int wrong_parts() const {
    int wrong = 0;
    for (int d = 0; d < static_cast<int>(devices_of(program_).size()); ++d)
      for (const lower::Returned& returned : devices_.program(d).returned)
        for (int m = 0; m < program_.graph.num_micro_batches; ++m)
          wrong += is_right(d, returned.buffer, m) ? 0 : 1;
    return wrong;
  }

  /// Messages and bytes that the busiest device sent, as `traffic` counts them.
  Traffic sent() const {
    Traffic most;
    for (int d = 0; d < static_cast<int>(devices_of(program_).size()); ++d) {
      Traffic own;
      for (const auto& [size, counts] : devices_.counts(d)) {
        const comm::Count& count = counts.sent;
        own.count += count.calls;
        own.bytes += static_cast<double>(count.payload_bytes);
      }
      most.count = std::max(most.count, own.count);
      most.bytes = std::max(most.bytes, own.bytes);
    }
    return most;
  }

 private:
  bool is_right(int device, int number, int micro_batch) const {
    const lower::Buffer& buffer = devices_.program(device).buffers[number];
    std::vector<float> got(buffer.type.elements());
    devices_.read(*memory_, device, number, micro_batch, reinterpret_cast<std::byte*>(got.data()));
    std::int64_t first = micro_batch;
    for (std::int64_t extent : buffer.global_shape) first *= extent;
    Shape at(buffer.offset.size(), 0);
    for (const float element : got) {
      std::int64_t index = 0;
      for (std::size_t d = 0; d < at.size(); ++d)
        index = index * buffer.global_shape[d] + buffer.offset[d] + at[d];
      if (element != static_cast<float>(first + index)) return false;
      for (std::size_t d = at.size(); d-- > 0 && ++at[d] == buffer.type.shape[d];) at[d] = 0;
    }
    return true;
  }

  const spmd::SpmdProgram& program_;
  runtime::Devices& devices_;
  std::unique_ptr<runtime::DeviceMemory> memory_;
  std::vector<std::vector<float>> given_;
};

}  // namespace alpa::testing
