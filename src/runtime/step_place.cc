// src/runtime/step_place.cc — the position of a step as text, for error messages
#include <fmt/core.h>

#include <functional>

#include "src/ir/input.h"
#include "src/ir/op_def.h"
#include "src/runtime/devices.h"

namespace alpa::runtime {
namespace {

/// True if `instruction` points into `list`.
bool holds(const std::vector<lower::Instruction>& list, const lower::Instruction* instruction) {
  const std::less<const lower::Instruction*> before;
  return !before(instruction, list.data()) && before(instruction, list.data() + list.size());
}

/// "stage 1, ", the mesh on which the instruction works; empty if there is only one.
std::string stage_text(const lower::DeviceProgram& device, const lower::Instruction* instruction,
                       const spmd::SpmdProgram& program) {
  if (program.meshes.size() == 1) return "";
  int mesh = device.mesh;
  if (instruction) {
    const Node& node = program.graph.nodes[instruction->node];
    const bool sends =
        instruction->kind == lower::Instruction::Kind::send && !instruction->message.passed_on;
    const int works_on = program.mesh_index(sends ? node.operands[0] : node.results[0]);
    if (program.same_devices(works_on, mesh)) mesh = works_on;
  }
  return fmt::format("stage {}, ", mesh);
}

}  // namespace

std::string to_string(const StepPlace& place, const lower::DeviceProgram& device,
                      const spmd::SpmdProgram& program) {
  const std::string stage = stage_text(device, place.instruction, program);
  if (!place.instruction) return fmt::format("{}device {}", stage, device.device);
  const Node& node = program.graph.nodes[place.instruction->node];
  const lower::Instruction::Kind kind = place.instruction->kind;
  const bool named_by_kind =
      kind == lower::Instruction::Kind::load || kind == lower::Instruction::Kind::copy;
  int list = 0;
  while (!holds(device.lists.at(list).instructions, place.instruction)) ++list;
  std::string text =
      fmt::format("{}device {}: instruction {} '{}' ({}, {}", stage, device.device,
                  place.instruction - device.lists[list].instructions.data(), node.name,
                  named_by_kind ? name_of(kind) : node.op->name, name_of(node.region));
  if (lower::runs_of(device, list) > 1)
    text += fmt::format(", micro-batch {} of {}", place.micro_batch + 1,
                        program.graph.num_micro_batches);
  return text + ")";
}

}  // namespace alpa::runtime
