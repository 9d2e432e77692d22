// src/runtime/placement.cc — devices of processes, and tags of what they send each other
#include "placement.h"

#include "src/comm/group.h"

namespace alpa::runtime {
namespace {

using Kind = lower::Instruction::Kind;

template <class Body>
void for_each_instruction(std::span<const lower::DeviceProgram> programs, Body&& body) {
  for (const lower::DeviceProgram& program : programs)
    for (const lower::InstructionList& list : program.lists)
      for (const lower::Instruction& instruction : list.instructions) body(program, instruction);
}

}  // namespace

Placement::Placement(processes::World* world, std::span<const lower::DeviceProgram> programs)
    : world_(world) {
  if (!world_) return;
  const std::vector<int> ranks = world_->ranks_of_devices(static_cast<int>(programs.size()));
  for (std::size_t d = 0; d < programs.size(); ++d) rank_of_[programs[d].device] = ranks[d];
  for_each_instruction(programs, [&](const auto& program, const lower::Instruction& instruction) {
    if (instruction.kind == Kind::collective || instruction.kind == Kind::start)
      groups_[instruction.kind == Kind::start].try_emplace(instruction.call.group);
    if (instruction.kind == Kind::send)
      lanes_.try_emplace({program.device, instruction.message.peer, instruction.message.lane});
  });
  int tags = static_cast<int>(lanes_.size());
  const auto ranks_of = [&](const std::vector<int>& devices) {
    std::vector<int> ranks;
    for (const int device : devices) ranks.push_back(rank_of(device));
    return ranks;
  };
  for (const auto& kind : groups_)
    for (const auto& [devices, tag] : kind) tags += comm::tags_of_group(ranks_of(devices));
  int next = world_->reserve_tags(tags);
  for (auto& [lane, tag] : lanes_) tag = next++;
  for (auto& kind : groups_)
    for (auto& [devices, tag] : kind) {
      tag = next;
      next += comm::tags_of_group(ranks_of(devices));
    }
}

}  // namespace alpa::runtime
