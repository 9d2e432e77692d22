// src/spmd/live_bytes.cc — live bytes along a partitioned program
#include "live_bytes.h"

#include <algorithm>
#include <numeric>

#include "src/ir/input.h"
#include "src/ir/op_def.h"

namespace alpa::spmd {
namespace {

/// State, and what is made once per step and read by micro-batches.
std::vector<int> lasting(const SpmdProgram& program) {
  const Graph& graph = program.graph;
  const std::vector<bool> once = once_before(program);
  std::vector<bool> lasts(graph.values.size());
  for (std::size_t n = 0; n < once.size(); ++n)
    for (int value : graph.nodes[n].operands)
      if (!once[n] && once[graph.values[value].producer]) lasts[value] = true;
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::state) lasts[input.value] = true;
  std::vector<int> values;
  for (int value = 0; value < static_cast<int>(lasts.size()); ++value)
    if (lasts[value]) values.push_back(value);
  return values;
}

}  // namespace

LiveBytes::LiveBytes(const SpmdProgram& program, std::int64_t slack_bytes)
    : program_(program),
      graph_(program.graph),
      group_of_mesh_(program.meshes.size()),
      slack_bytes_(slack_bytes) {
  const int size = static_cast<int>(graph_.nodes.size());
  for (std::size_t v = 0; v < graph_.values.size(); ++v) {
    bytes_.push_back(
        shard_bytes(graph_.values[v].type, program.specs[v], program.mesh_of(static_cast<int>(v))));
    last_use_.push_back(graph_.values[v].producer);
  }
  for (int n = 0; n < size; ++n)
    for (int value : graph_.nodes[n].operands) last_use_[value] = n;
  for (const Metric& metric : graph_.metrics) last_use_[metric.value] = size;
  for (const Output& output : graph_.outputs) last_use_[output.value] = size;
  for (int value : lasting(program)) bytes_[value] = 0;
  for (const Update& update : graph_.updates) {
    bytes_[update.value] = 0;
    last_use_[update.input] = std::max(last_use_[update.input], last_use_[update.value]);
  }
  for (const std::vector<int>& meshes : mesh_groups(program)) {
    for (int mesh : meshes) group_of_mesh_[mesh] = static_cast<int>(groups_.size());
    groups_.push_back({std::vector<std::int64_t>(size + 1, 0)});
  }
  int passes = 0;  // nodes up to the last one of forward and backward runs
  for (int n = 0; n < size; ++n)
    if (graph_.nodes[n].region != Region::apply) passes = n + 1;
  for (int v = 0; v < static_cast<int>(bytes_.size()); ++v) {
    const Life life = life_of(v, passes);
    if (life.begin >= life.end) continue;
    std::vector<std::int64_t>& change = groups_[group_of_mesh_[program.mesh_index(v)]].live;
    change[life.begin] += life.copies * bytes_[v];
    change[life.end] -= life.copies * bytes_[v];
  }
  for (Group& group : groups_) {
    std::partial_sum(group.live.begin(), group.live.end(), group.live.begin());
    group.peak = std::ranges::max(group.live);
  }
}

LiveBytes::Life LiveBytes::life_of(int value, int passes) const {
  const int size = static_cast<int>(graph_.nodes.size()), producer = graph_.values[value].producer;
  const int copies =
      program_.in_flight.empty() ? 1 : program_.in_flight[program_.mesh_index(value)];
  const bool is_kept = graph_.nodes[producer].region == Region::forward &&
                       last_use_[value] < size &&
                       graph_.nodes[last_use_[value]].region == Region::backward &&
                       find_input(graph_, value) == nullptr;
  if (is_kept && copies > 1) return {0, passes, copies};
  return {producer + (takes_over_operand(value) ? 1 : 0), std::min(last_use_[value] + 1, size), 1};
}

bool LiveBytes::takes_over_operand(int value) const {
  const int n = graph_.values[value].producer;
  const Node& node = graph_.nodes[n];
  return in_place(node) != InPlace::none &&
         std::any_of(node.operands.begin(), node.operands.end(), [&](int operand) {
           return last_use_[operand] == n && bytes_[operand] == bytes_[value];
         });
}

bool LiveBytes::grow(int n, const std::vector<Growth>& growth) {
  auto& [live, peak] =
      groups_[group_of_mesh_[program_.mesh_index(graph_.nodes[n].results.front())]];
  const std::int64_t limit = peak + slack_bytes_;
  const auto add = [&](std::int64_t sign) {
    for (const Growth& part : growth)
      for (int at = part.begin; at < part.end; ++at) live[at] += sign * part.bytes;
  };
  const auto fits = [&](const Growth& part) {
    return std::all_of(live.begin() + part.begin, live.begin() + std::max(part.begin, part.end),
                       [&](std::int64_t bytes) { return bytes <= limit; });
  };
  add(1);
  if (std::all_of(growth.begin(), growth.end(), fits)) return true;
  add(-1);
  return false;
}

std::int64_t LiveBytes::freed_by(int n) const {
  std::int64_t bytes = 0;
  for (int value : graph_.nodes[n].operands)
    if (last_use_[value] == n) bytes += bytes_[value];
  return bytes;
}

std::int64_t LiveBytes::allocated_by(int n) const {
  std::int64_t bytes = 0;
  for (int value : graph_.nodes[n].results) bytes += bytes_[value];
  return bytes;
}

std::int64_t estimated_bytes(const SpmdProgram& program) {
  const LiveBytes live(program);
  std::vector<std::int64_t> bytes;  // per mesh
  for (int mesh = 0; mesh < static_cast<int>(program.meshes.size()); ++mesh)
    bytes.push_back(live.peak(mesh));
  for (int value : lasting(program))
    for (int mesh = 0; mesh < static_cast<int>(program.meshes.size()); ++mesh)
      if (program.same_devices(mesh, program.mesh_index(value)))
        bytes[mesh] +=
            shard_bytes(program.graph.type(value), program.specs[value], program.mesh_of(value));
  return std::ranges::max(bytes);
}

}  // namespace alpa::spmd
