// src/spmd/live_bytes.cc — live bytes along a partitioned program
#include "live_bytes.h"

#include <algorithm>
#include <numeric>

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
    : graph_(program.graph), live_(graph_.nodes.size(), 0) {
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
  std::vector<std::int64_t> change(size + 1, 0);
  for (int v = 0; v < static_cast<int>(bytes_.size()); ++v) {
    const int begin = graph_.values[v].producer + (takes_over_operand(v) ? 1 : 0),
              end = std::min(last_use_[v] + 1, size);
    if (begin >= end) continue;
    change[begin] += bytes_[v];
    change[end] -= bytes_[v];
  }
  std::partial_sum(change.begin(), change.begin() + size, live_.begin());
  for (std::int64_t bytes : live_) peak_ = std::max(peak_, bytes);
  limit_ = peak_ + slack_bytes;
}

bool LiveBytes::takes_over_operand(int value) const {
  const int n = graph_.values[value].producer;
  const Node& node = graph_.nodes[n];
  return in_place(node) != InPlace::none &&
         std::any_of(node.operands.begin(), node.operands.end(), [&](int operand) {
           return last_use_[operand] == n && bytes_[operand] == bytes_[value];
         });
}

bool LiveBytes::grow(const std::vector<Growth>& growth) {
  const auto add = [&](std::int64_t sign) {
    for (const Growth& part : growth)
      for (int n = part.begin; n < part.end; ++n) live_[n] += sign * part.bytes;
  };
  const auto fits = [&](const Growth& part) {
    return std::all_of(live_.begin() + part.begin, live_.begin() + std::max(part.begin, part.end),
                       [&](std::int64_t bytes) { return bytes <= limit_; });
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
  std::int64_t bytes = LiveBytes(program).peak();
  for (int value : lasting(program))
    bytes += shard_bytes(program.graph.type(value), program.specs[value], program.mesh_of(value));
  return bytes;
}

}  // namespace alpa::spmd
