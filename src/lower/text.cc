// src/lower/text.cc — text form of device programs
#include <fmt/core.h>

#include "alpa/base/error.h"
#include "src/base/name_table.h"
#include "src/ir/op_def.h"
#include "src/lower/device_program.h"

namespace alpa::lower {
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
    text += fmt::format(" at {} of {}", alpa::to_string(buffer.offset),
                        alpa::to_string(buffer.global_shape));
  if (buffer.alias_of >= 0) return text + fmt::format(" in b{}", buffer.alias_of);
  if (buffer.slots > 1) text += fmt::format(" x{}", buffer.slots);
  return buffer.arena_offset >= 0 ? text + fmt::format(" @{}", buffer.arena_offset) : text;
}

std::string_view name_of(Combiner combiner) {
  constexpr std::string_view kNames[] = {"sum", "max", "log_sum_exp"};
  return name_in(kNames, combiner, "combiner");
}

std::string call_text(const CollectiveCall& call) {
  std::string text = fmt::format(" {}", name_of(call.kind));
  if (pairwise(call.kind))
    text += fmt::format(" dim {} chunk {} to", call.from_dim.dim, call.from_dim.chunk);
  for (const ShardedDim& sharded : call.dims)
    text += fmt::format("{} dim {} chunk {}", &sharded == call.dims.data() ? "" : ",", sharded.dim,
                        sharded.chunk);
  if (reduces(call.kind)) text += fmt::format(" {}", name_of(call.combiner));
  text += " over";
  for (int rank : call.group) text += fmt::format(" {}", rank);
  return text;
}

/// "wait 3", of another list "wait forward 3", of an earlier micro-batch "wait 3 back 2", of all so
/// far "wait 3 all".
std::string wait_text(const DeviceProgram& device, const Instruction& wait) {
  std::string text = "wait ";
  if (wait.awaits_list >= 0) text += device.lists[wait.awaits_list].name + " ";
  text += std::to_string(wait.awaits);
  if (wait.behind == Instruction::kAllRuns) return text + " all";
  return wait.behind > 0 ? text + fmt::format(" back {}", wait.behind) : text;
}

/// "send b4 [2, 3] at [0, 0] to 5 in lane 0".
std::string message_text(const Instruction& instruction) {
  const bool sends = instruction.kind == Instruction::Kind::send;
  const Message& message = instruction.message;
  return fmt::format("{} {} {} at {} {} {} in lane {}", name_of(instruction.kind),
                     buffer_list(sends ? instruction.inputs : instruction.outputs),
                     alpa::to_string(message.extent), alpa::to_string(message.begin),
                     sends ? "to" : "from", message.peer, message.lane);
}

std::string instruction_line(const DeviceProgram& device, const Instruction& instruction,
                             const spmd::SpmdProgram& program) {
  using Kind = Instruction::Kind;
  const Node& node = program.graph.nodes[instruction.node];
  if (instruction.kind == Kind::wait)
    return wait_text(device, instruction) + fmt::format(" \"{}\"", node.name);
  const bool message = instruction.kind == Kind::send || instruction.kind == Kind::receive;
  std::string text = message ? message_text(instruction) : std::string(name_of(instruction.kind));
  if (instruction.kind == Instruction::Kind::compute) text += fmt::format(" {}", node.op->name);
  if (instruction.kind == Instruction::Kind::fill) text += fmt::format(" {}", instruction.value);
  if (!instruction.call.group.empty()) text += call_text(instruction.call);
  if (!message)
    text += fmt::format(" ({}) -> {}", buffer_list(instruction.inputs),
                        buffer_list(instruction.outputs));
  if (instruction.overlapped) text += " overlapped";
  if (instruction.workspace >= 0) text += fmt::format(" using b{}", instruction.workspace);
  return text + fmt::format(" \"{}\"", node.name);
}

/// "schedule: forward 0 1, backward 0, …, apply 0".
std::string schedule_text(const DeviceProgram& device) {
  std::string text = "schedule:";
  int list = -1;
  for (const ListRun& run : device.schedule) {
    if (run.list != list) text += (list >= 0 ? ", " : " ") + device.lists[run.list].name;
    list = run.list;
    text += fmt::format(" {}", run.micro_batch);
  }
  return text + "\n";
}

std::string list_text(const DeviceProgram& device, const InstructionList& list,
                      const spmd::SpmdProgram& program) {
  std::string text = list.name + ":\n";
  for (std::size_t i = 0; i < list.instructions.size(); ++i)
    text += fmt::format("  {} {}\n", i, instruction_line(device, list.instructions[i], program));
  return text;
}

}  // namespace

std::string_view name_of(Instruction::Kind kind) {
  constexpr std::string_view kNames[] = {"load",  "compute", "copy", "fill",   "collective",
                                         "start", "wait",    "send", "receive"};
  return kNames[static_cast<int>(kind)];
}

std::string to_string(const DeviceProgram& device, const spmd::SpmdProgram& program) {
  std::string text =
      fmt::format("device {} of {}", device.device, shape_text(program.meshes[device.mesh]));
  if (program.meshes.size() > 1) text += fmt::format(" (mesh {})", device.mesh);
  text += device.arena_bytes > 0 ? fmt::format(", arena of {} bytes\n", device.arena_bytes) : "\n";
  for (int b = 0; b < static_cast<int>(device.buffers.size()); ++b)
    text += buffer_line(device, b) + "\n";
  if (!device.kept.empty()) text += "kept " + buffer_list(device.kept) + "\n";
  if (!device.zeroed.empty()) text += "zeroed " + buffer_list(device.zeroed) + "\n";
  std::vector<int> reported;
  for (const Reported& metric : device.reported) reported.push_back(metric.buffer);
  if (!reported.empty()) text += "reported " + buffer_list(reported) + "\n";
  std::vector<int> returned;
  for (const Returned& output : device.returned) returned.push_back(output.buffer);
  if (!returned.empty()) text += "returned " + buffer_list(returned) + "\n";
  for (const InstructionList& list : device.lists)
    if (!list.instructions.empty() || &list == &device.lists.back())
      text += list_text(device, list, program);
  if (program.meshes.size() > 1) text += schedule_text(device);
  return text;
}

}  // namespace alpa::lower
