// src/pipeline/text.cc — text form of device programs
#include <fmt/core.h>

#include "alpa/pipeline/device_program.h"

namespace alpa {
namespace {

std::string buffer_list(const std::vector<int>& buffers) {
  std::string text;
  for (int buffer : buffers) text += fmt::format("{}b{}", text.empty() ? "" : ", ", buffer);
  return text;
}

std::string buffer_line(const DeviceProgram& device, int b) {
  const Buffer& buffer = device.buffers[b];
  std::string text = fmt::format("b{}: {}", b, to_string(buffer.type));
  if (buffer.type.shape != buffer.global_shape)
    text += fmt::format(" at {} of {}", to_string(buffer.offset), to_string(buffer.global_shape));
  if (buffer.alias_of >= 0) return text + fmt::format(" in b{}", buffer.alias_of);
  return buffer.arena_offset >= 0 ? text + fmt::format(" @{}", buffer.arena_offset) : text;
}

std::string call_text(const CollectiveCall& call) {
  std::string text = fmt::format(" {}", name_of(call.kind));
  if (call.kind == CollectiveKind::all_to_all)
    text += fmt::format(" dim {} chunk {} to", call.from_dim.dim, call.from_dim.chunk);
  for (const ShardedDim& sharded : call.dims)
    text += fmt::format("{} dim {} chunk {}", &sharded == call.dims.data() ? "" : ",", sharded.dim,
                        sharded.chunk);
  if (call.kind == CollectiveKind::all_reduce || call.kind == CollectiveKind::reduce_scatter)
    text += call.combiner == Combiner::sum ? " sum" : " max";
  text += " over";
  for (int rank : call.group) text += fmt::format(" {}", rank);
  return text;
}

std::string instruction_line(const Instruction& instruction, const SpmdProgram& program) {
  const Node& node = program.graph.nodes[instruction.node];
  std::string text = std::string(name_of(instruction.kind));
  if (instruction.kind == Instruction::Kind::wait)
    return text + fmt::format(" {} \"{}\"", instruction.awaits, node.name);
  if (instruction.kind == Instruction::Kind::compute) text += fmt::format(" {}", node.op->name);
  if (instruction.kind == Instruction::Kind::fill) text += fmt::format(" {}", instruction.value);
  if (!instruction.call.group.empty()) text += call_text(instruction.call);
  text += fmt::format(" ({}) -> {}", buffer_list(instruction.inputs), buffer_list(instruction.outputs));
  if (instruction.aside) text += " aside";
  if (instruction.workspace >= 0) text += fmt::format(" using b{}", instruction.workspace);
  return text + fmt::format(" \"{}\"", node.name);
}

std::string list_text(const InstructionList& list, const SpmdProgram& program) {
  std::string text = list.name + ":\n";
  for (std::size_t i = 0; i < list.instructions.size(); ++i)
    text += fmt::format("  {} {}\n", i, instruction_line(list.instructions[i], program));
  return text;
}

}  // namespace

std::string_view name_of(Instruction::Kind kind) {
  constexpr std::string_view kNames[] = {"load",  "compute", "copy", "fill",   "collective",
                                        "start", "wait",    "send", "receive"};
  return kNames[static_cast<int>(kind)];
}

std::string to_string(const DeviceProgram& device, const SpmdProgram& program) {
  std::string text = fmt::format("device {} of {}", device.device, shape_text(program.meshes[device.mesh]));
  text += device.arena_bytes > 0 ? fmt::format(", arena of {} bytes\n", device.arena_bytes) : "\n";
  for (int b = 0; b < static_cast<int>(device.buffers.size()); ++b) text += buffer_line(device, b) + "\n";
  if (!device.kept.empty()) text += "kept " + buffer_list(device.kept) + "\n";
  if (!device.zeroed.empty()) text += "zeroed " + buffer_list(device.zeroed) + "\n";
  std::vector<int> reported;
  for (const Reported& metric : device.reported) reported.push_back(metric.buffer);
  if (!reported.empty()) text += "reported " + buffer_list(reported) + "\n";
  for (const InstructionList& list : device.lists)
    if (!list.instructions.empty() || &list == &device.lists.back()) text += list_text(list, program);
  return text;
}

}  // namespace alpa
