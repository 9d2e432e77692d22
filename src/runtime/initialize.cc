// src/runtime/initialize.cc — initialises state inputs from a seed
#include "initialize.h"

#include <cstring>
#include <set>
#include <vector>

#include "alpa/tensor/array.h"
#include "kernels/cpu/kernels.h"
#include "src/base/fnv.h"
#include "src/ir/input.h"

namespace alpa::runtime {
namespace {

void initialize(const KernelTensor& shard, const std::string& name, const Attributes& attributes,
                std::uint64_t seed, ThreadTeam& team) {
  const std::string& kind = attributes.string("init");
  const double a = attributes.real("a"), b = attributes.real("b");
  const StepContext context{seed, 0, 0};
  const Attributes drawn{
      {"value", a}, {"stream", static_cast<std::int64_t>(fnv1a(name))}, {"a", a}, {"b", b}};
  KernelCall call;
  call.outputs = {shard};
  call.attributes = &drawn;
  call.step = &context;
  call.team = &team;
  call.threads = team.size();
  const KernelDef& kernel = kind == "normal"    ? cpu::random_normal
                            : kind == "uniform" ? cpu::random_uniform
                                                : cpu::constant;
  kernel.run(call);
}

/// A copy's first content: that of its state, in its type.
void initialize_copy(const KernelTensor& shard, const Node& state, std::uint64_t seed,
                     ThreadTeam& team) {
  Array wide({state.attributes.dtype("dtype"), shard.type.shape});
  initialize({wide.mutable_data(), wide.type(), shard.offset, shard.global_shape}, state.name,
             state.attributes, seed, team);
  const Array narrow = wide.cast(shard.type.dtype);
  std::memcpy(shard.data, narrow.data(), static_cast<std::size_t>(narrow.bytes()));
}

}  // namespace

void initialize(const KernelTensor& shard, const Graph& graph, const Input& input,
                std::uint64_t seed, ThreadTeam& team) {
  const bool copied = is_copy(graph, input);
  const Node& node = graph.producer((copied ? *find_state(graph, input.of) : input).value);
  if (copied)
    initialize_copy(shard, node, seed, team);
  else
    initialize(shard, input.name, node.attributes, seed, team);
}

void fill_state(const Graph& graph, const Directory& directory, const Programs& programs,
                DevicesHere here, Devices& devices, DeviceState& state) {
  ThreadTeam team(usable_cores());
  std::vector<std::byte> host;
  for (const Input& input : graph.inputs) {
    if (input.kind != InputKind::state) continue;
    const std::vector<HeldPart>& parts = directory.at(input.name);
    std::set<int> drawn;
    for (const HeldPart& first : parts) {
      if (!here.has(first.device) || !drawn.insert(first.owner).second) continue;
      const lower::Buffer& buffer = programs[first.device]->buffers[first.buffer];
      host.resize(buffer.type.bytes());
      const KernelTensor shard{host.data(), buffer.type, buffer.offset, buffer.global_shape};
      initialize(shard, graph, input, state.seed, team);
      for (const HeldPart& part : parts)
        if (part.owner == first.owner && here.has(part.device))
          devices.write(*state.memory, part.device - here.first, part.buffer, host.data());
    }
  }
}

}  // namespace alpa::runtime
