// src/lower/side_by_side.cc — which buffers should lie side by side, and whether they do
#include "src/lower/side_by_side.h"

#include <algorithm>

#include "kernels/cuda/kernels.h"
#include "src/ir/op_def.h"

namespace alpa::lower {
namespace {

/// Buffers of each row of the instruction's kernel.
std::vector<std::vector<int>> rows_of(const Graph& graph, const Instruction& instruction) {
  if (instruction.kind != Instruction::Kind::compute) return {};
  const Node& node = graph.nodes[instruction.node];
  std::vector<std::vector<int>> rows;
  for (const TensorRow& row : cuda::rows_side_by_side(node.op->name, node.attributes)) {
    const std::vector<int>& tensors = row.results ? instruction.outputs : instruction.inputs;
    const auto first = tensors.begin() + static_cast<std::ptrdiff_t>(row.first);
    rows.emplace_back(first, first + static_cast<std::ptrdiff_t>(row.count));
  }
  return rows;
}

bool are_alike(const Buffer& a, const Buffer& b) {
  return a.type.bytes() == b.type.bytes() && a.slots == b.slots && a.slot_bytes == b.slot_bytes;
}

/// True if the memories can be one block.
bool can_lie_side_by_side(const DeviceProgram& device, const std::vector<int>& memories) {
  std::vector<int> distinct = memories;
  std::sort(distinct.begin(), distinct.end());
  if (std::adjacent_find(distinct.begin(), distinct.end()) != distinct.end()) return false;
  const Buffer& first = device.buffers[memories.front()];
  return first.type.bytes() > 0 && std::all_of(memories.begin(), memories.end(), [&](int memory) {
           const Buffer& buffer = device.buffers[memory];
           return buffer.arena_offset < 0 && are_alike(buffer, first);
         });
}

bool are_equally_far_apart(const DeviceProgram& device, const std::vector<int>& row) {
  const Buffer& first = device.buffers[row.front()];
  const std::int64_t distance = device.buffers[row[1]].arena_offset - first.arena_offset;
  if (first.arena_offset < 0 || distance < first.type.bytes()) return false;
  for (std::size_t i = 1; i < row.size(); ++i) {
    const Buffer& buffer = device.buffers[row[i]];
    if (!are_alike(buffer, first) ||
        buffer.arena_offset != first.arena_offset + static_cast<std::int64_t>(i) * distance)
      return false;
  }
  return true;
}

}  // namespace

std::vector<std::vector<int>> wanted_side_by_side(const DeviceProgram& device, const Graph& graph) {
  std::vector<std::vector<int>> wanted;
  std::vector<bool> taken(device.buffers.size());
  for (const InstructionList& list : device.lists)
    for (const Instruction& instruction : list.instructions)
      for (std::vector<int> row : rows_of(graph, instruction)) {
        for (int& buffer : row) buffer = memory_of(device, buffer);
        if (std::any_of(row.begin(), row.end(), [&](int memory) { return taken[memory]; }) ||
            !can_lie_side_by_side(device, row))
          continue;
        for (int memory : row) taken[memory] = true;
        wanted.push_back(std::move(row));
      }
  return wanted;
}

bool lie_side_by_side(const DeviceProgram& device, const Graph& graph,
                      const Instruction& instruction) {
  const std::vector<std::vector<int>> rows = rows_of(graph, instruction);
  return !rows.empty() && std::all_of(rows.begin(), rows.end(), [&](const std::vector<int>& row) {
    return are_equally_far_apart(device, row);
  });
}

int launches_of(const DeviceProgram& device, const Graph& graph, const Instruction& instruction) {
  const std::vector<std::vector<int>> rows = rows_of(graph, instruction);
  return rows.empty() || lie_side_by_side(device, graph, instruction)
             ? 1
             : static_cast<int>(rows.front().size());
}

}  // namespace alpa::lower
