// src/runtime/stall.cc — finds who waits for whom in a step that has come to a standstill
#include "stall.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "alpa/base/text.h"

namespace alpa::runtime {
namespace {

using Kind = lower::Instruction::Kind;

const lower::ListRun& run_at(const lower::DeviceProgram& program, std::uint64_t position) {
  return program.schedule.at(position >> 32);
}

/// A device that has not ended its step.
struct Standing {
  const lower::DeviceProgram* program = nullptr;
  StepPlace place;
  int list = 0;
};

/// Place and list of device `index` at `position`.
Standing standing_at(const lower::DeviceProgram& program, int index, std::uint64_t position) {
  return {&program, place_at(program, index, position), run_at(program, position).list};
}

/// Devices that have not ended their step.
std::vector<Standing> standing_of(std::span<const lower::DeviceProgram* const> devices,
                                  const std::vector<std::uint64_t>& positions) {
  std::vector<Standing> standing;
  for (std::size_t d = 0; d < devices.size(); ++d)
    if (positions[d] != StepPosition::kOver)
      standing.push_back(standing_at(*devices[d], static_cast<int>(d), positions[d]));
  return standing;
}

/// Members of the call's group that have not come to the same node of the same micro-batch.
std::vector<int> missing_members(const Standing& waiting, const lower::Instruction& call,
                                 const std::vector<Standing>& standing) {
  std::vector<int> missing;
  for (int member : call.call.group) {
    const bool there = std::any_of(standing.begin(), standing.end(), [&](const Standing& other) {
      return other.program->device == member && other.place.instruction &&
             other.place.instruction->node == call.node &&
             other.place.micro_batch == waiting.place.micro_batch;
    });
    if (!there && member != waiting.program->device) missing.push_back(member);
  }
  return missing;
}

/// Device ids; none: the device is in the middle of its instruction.
std::vector<int> awaited_by(const Standing& waiting, const std::vector<Standing>& standing) {
  const lower::Instruction* instruction = waiting.place.instruction;
  if (!instruction) return {};
  if (instruction->kind == Kind::collective)
    return missing_members(waiting, *instruction, standing);
  if (instruction->kind != Kind::wait) return {};
  const int list = instruction->awaits_list < 0 ? waiting.list : instruction->awaits_list;
  const lower::Instruction& awaited =
      waiting.program->lists[list].instructions[instruction->awaits];
  return awaited.kind == Kind::start ? missing_members(waiting, awaited, standing)
                                     : std::vector<int>{awaited.message.peer};
}

std::string waiting_text(const std::vector<int>& devices) {
  return fmt::format("waits for device{} {}", devices.size() > 1 ? "s" : "",
                     fmt::join(devices, ", "));
}

}  // namespace

StepPlace place_at(const lower::DeviceProgram& program, int index, std::uint64_t position) {
  const lower::ListRun& run = run_at(program, position);
  const std::vector<lower::Instruction>& list = program.lists[run.list].instructions;
  const auto at = static_cast<std::size_t>(position & 0xffffffff);
  return {index, at < list.size() ? &list[at] : nullptr, run.micro_batch};
}

std::string awaited_text(std::span<const lower::DeviceProgram* const> devices,
                         const std::vector<std::uint64_t>& positions, int index) {
  const std::vector<Standing> standing = standing_of(devices, positions);
  const auto own = std::find_if(standing.begin(), standing.end(),
                                [&](const Standing& s) { return s.place.device == index; });
  const std::vector<int> awaited =
      own == standing.end() ? std::vector<int>{} : awaited_by(*own, standing);
  return awaited.empty() ? "" : waiting_text(awaited);
}

Stall stall_of(std::span<const lower::DeviceProgram* const> devices,
               const std::vector<std::uint64_t>& positions, const spmd::SpmdProgram& program,
               double seconds) {
  constexpr std::size_t kMostNamed = 8;
  const std::vector<Standing> standing = standing_of(devices, positions);
  if (standing.empty()) return {{}, "a started collective is not finished"};
  const auto culprit = std::find_if(standing.begin(), standing.end(), [&](const Standing& s) {
    return awaited_by(s, standing).empty();
  });
  const Standing& first = culprit == standing.end() ? standing.front() : *culprit;
  std::vector<std::string> others;
  for (const Standing& other : standing)
    if (const std::vector<int> awaited = awaited_by(other, standing);
        &other != &first && !awaited.empty() && others.size() < kMostNamed)
      others.push_back(fmt::format("{} {}", to_string(other.place, *other.program, program),
                                   waiting_text(awaited)));
  const std::vector<int> awaited = awaited_by(first, standing);
  return {first.place,
          fmt::format("{} after {}{}{}; give a larger stall_seconds if it takes longer",
                      awaited.empty() ? "not finished" : waiting_text(awaited) + ", still",
                      seconds_text(seconds), others.empty() ? "" : ", and ",
                      fmt::join(others, ", and "))};
}

processes::Failure stall_of_all(const StalledStep& step,
                                const std::vector<processes::StepReport>& reports,
                                std::span<const lower::DeviceProgram> devices,
                                const Placement& placement, const spmd::SpmdProgram& program) {
  const processes::World& world = *placement.world();
  for (const processes::Process& process : world.processes())
    if (const processes::StepReport& report = reports[process.rank]; report.call < step.call)
      return {fmt::format("{} has not begun step {} after {}: it was last {}; give a larger "
                          "stall_seconds if it takes longer",
                          processes::to_string(process, world.size()), step.number,
                          seconds_text(step.seconds), report.text),
              2, process.rank, true};
  std::vector<const lower::DeviceProgram*> programs;
  std::vector<std::uint64_t> positions;
  std::vector<std::size_t> next(reports.size());
  for (const lower::DeviceProgram& device : devices) {
    const int rank = placement.rank_of(device.device);
    const processes::StepReport& report = reports[rank];
    programs.push_back(&device);
    positions.push_back(report.call == step.call ? report.positions.at(next[rank]++)
                                                 : StepPosition::kOver);
  }
  const Stall stall = stall_of(programs, positions, program, step.seconds);
  const lower::DeviceProgram& culprit = devices[stall.place.device];
  return {to_string(stall.place, culprit, program) + ": " + stall.text, 2,
          placement.rank_of(culprit.device)};
}

}  // namespace alpa::runtime
