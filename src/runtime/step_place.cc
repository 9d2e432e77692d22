// src/runtime/step_place.cc — where a step was, in words
#include <fmt/core.h>

#include <functional>

#include <functional>

#include "alpa/ir/input.h"
#include "alpa/runtime/devices.h"

namespace alpa {
namespace {

/// Index of `instruction` in `list`; -1 if it is elsewhere.
std::ptrdiff_t index_in(const std::vector<Instruction>& list, const Instruction* instruction) {
  const std::less<const Instruction*> before;
  const Instruction* const begin = list.data();
  if (before(instruction, begin) || !before(instruction, begin + list.size())) return -1;
  return instruction - begin;
}

}  // namespace

std::string to_string(const StepPlace& place, const DeviceProgram& device, const SpmdProgram& program) {
  if (!place.instruction) return fmt::format("device {}", place.rank);
  const std::ptrdiff_t accumulate = index_in(device.accumulate, place.instruction);
  const Node& node = program.graph.nodes[place.instruction->node];
  const Instruction::Kind kind = place.instruction->kind;
  const bool named_by_kind = kind == Instruction::Kind::load || kind == Instruction::Kind::copy;
  std::string text =
      fmt::format("device {}: instruction {} '{}' ({}, {}", place.rank,
                  accumulate >= 0 ? accumulate : index_in(device.apply, place.instruction), node.name,
                  named_by_kind ? name_of(kind) : node.op->name, name_of(node.region));
  if (accumulate >= 0)
    text += fmt::format(", micro-batch {} of {}", place.micro_batch + 1, program.graph.num_micro_batches);
  return text + ")";
}

}  // namespace alpa
