// Timelines of schedules, what they keep in flight, and the check that nobody waits for himself.
#include <doctest/doctest.h>

#include "plan/waiting_schedule.h"
#include "src/lower/memory_plan.h"
#include "support/error_text.h"
#include "support/two_meshes.h"

namespace schedule_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

spmd::SpmdProgram two_stages(int micro_batches) {
  const Graph graph = training_graph({f32, {8, 4}}, {f32, {8, 2}}, one_layer_per_stage(2, 4),
                                     {.num_micro_batches = micro_batches});
  return on_meshes(graph, {{mesh_from(0, {1}), {}}, {mesh_from(1, {1}), {}}});
}

/// Copies of the buffer of tanh's result, which the first stage sends and reads again backward.
int copies_of_activation(int stages, int stage, const pipeline::PipelineSchedule& schedule,
                         int micro_batches) {
  const Graph graph = training_graph({f32, {24, 4}}, {f32, {24, 2}}, one_layer_per_stage(stages, 4),
                                     {.num_micro_batches = micro_batches});
  std::vector<Stage> meshes;
  for (int s = 0; s < stages; ++s) meshes.push_back({mesh_from(s, {1}), {}});
  const spmd::SpmdProgram program = on_meshes(graph, meshes);
  const lower::DeviceProgram device = lower::emit(program, stage, false, schedule);
  for (const lower::Instruction& instruction : device.lists[0].instructions)
    if (instruction.kind == lower::Instruction::Kind::send)
      return device.buffers[lower::memory_of(device, instruction.inputs[0])].slots;
  return 0;
}

std::vector<lower::DeviceProgram> programs_of(const spmd::SpmdProgram& program,
                                              const pipeline::PipelineSchedule& schedule) {
  std::vector<lower::DeviceProgram> devices;
  for (int device : spmd::devices_of(program))
    devices.push_back(lower::emit(program, device, false, schedule));
  return devices;
}

std::string mistake_of(const std::vector<lower::DeviceProgram>& devices,
                       const spmd::SpmdProgram& program) {
  try {
    lower::verify_schedules(devices, program);
  } catch (const Bug& bug) {
    return bug.what();
  }
  return "";
}

}  // namespace

TEST_CASE("GPipe and 1F1B as timelines") {
  CHECK(to_string(pipeline::gpipe(2, 3)) ==
        "F0 F1 F2 B0 B1 B2 apply\n"
        "F0 F1 F2 B0 B1 B2 apply\n");
  CHECK(to_string(pipeline::one_f_one_b(3, 4)) ==
        "F0 F1 F2 B0 F3 B1 B2 B3 apply\n"
        "F0 F1 B0 F2 B1 F3 B2 B3 apply\n"
        "F0 B0 F1 B1 F2 B2 F3 B3 apply\n");
  CHECK(to_string(pipeline::one_f_one_b(3, 1)) == "F0 B0 apply\nF0 B0 apply\nF0 B0 apply\n");
  CHECK(error_of([] { pipeline::gpipe(0, 3); }) ==
        "gpipe: 0 stages and 3 micro-batches; give at least one of each");
  CHECK(error_of([] { pipeline::one_f_one_b(2, 0); }) ==
        "one_f_one_b: 2 stages and 0 micro-batches; give at least one of each");
}

TEST_CASE("an activation has as many copies as its schedule keeps micro-batches in flight") {
  constexpr int kStages = 3, kMicroBatches = 6;
  for (int stage = 0; stage + 1 < kStages; ++stage) {
    CHECK(copies_of_activation(kStages, stage, pipeline::gpipe(kStages, kMicroBatches),
                               kMicroBatches) == kMicroBatches);
    CHECK(copies_of_activation(kStages, stage, pipeline::one_f_one_b(kStages, kMicroBatches),
                               kMicroBatches) == kStages - stage);
    CHECK(copies_of_activation(kStages, stage, pipeline::one_f_one_b(kStages, 2), 2) == 2);
  }
}

TEST_CASE("1F1B needs less memory than GPipe") {
  const spmd::SpmdProgram program = two_stages(8);
  const auto bytes = [&](const pipeline::PipelineSchedule& schedule) {
    return lower::lower(program, 0, false, lower::memory_rules("cpu"), schedule).arena_bytes;
  };
  CHECK(bytes(pipeline::one_f_one_b(2, 8)) < bytes(pipeline::gpipe(2, 8)));
}

TEST_CASE("memory whose copies a schedule would overwrite is found out") {
  const spmd::SpmdProgram program = two_stages(4);
  lower::DeviceProgram device =
      lower::lower(program, 0, false, lower::memory_rules("cpu"), pipeline::gpipe(2, 4));
  lower::verify_memory(device, program);
  for (lower::Buffer& buffer : device.buffers)
    if (buffer.slots == 4) buffer.slots = 3;
  CHECK_THROWS_AS(lower::verify_memory(device, program), Bug);
}

TEST_CASE("a schedule that leaves out, repeats or reorders runs is refused") {
  const spmd::SpmdProgram program = two_stages(2);
  const auto refuses = [&](auto&& change) {
    pipeline::PipelineSchedule schedule = pipeline::gpipe(2, 2);
    change(schedule[0]);
    CHECK_THROWS_AS(lower::emit(program, 0, false, schedule), Bug);
  };
  lower::emit(program, 0, false, pipeline::gpipe(2, 2));
  refuses([](std::vector<pipeline::RegionRun>& runs) { runs.erase(runs.begin()); });
  refuses([](std::vector<pipeline::RegionRun>& runs) { runs.pop_back(); });
  refuses([](std::vector<pipeline::RegionRun>& runs) { std::swap(runs[0], runs[1]); });
  refuses([](std::vector<pipeline::RegionRun>& runs) {
    runs.insert(runs.begin() + 2, {Region::forward, 1});
  });
  refuses([](std::vector<pipeline::RegionRun>& runs) { runs.push_back({Region::backward, 2}); });
  CHECK_THROWS_AS(lower::emit(program, 0, false), Bug);
}

TEST_CASE("a schedule in which two meshes wait for each other names who waits for whom") {
  const spmd::SpmdProgram program = two_stages(2);
  CHECK(mistake_of(programs_of(program, pipeline::one_f_one_b(2, 2)), program) == "");
  CHECK(mistake_of(programs_of(program, waiting_schedule()), program) ==
        "schedules: device 0 in backward of micro-batch 0, instruction 1 "
        "(\"einsum.grad/einsum.transfer\") waits "
        "for device 1, device 1 in forward of micro-batch 1, instruction 1 (\"tanh.transfer\") "
        "waits for device "
        "0");
}

TEST_CASE("schedules of any number of micro-batches, in rounds or not, pass the verifier") {
  for (ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b_overlap,
                            ScheduleKind::zero_bubble, ScheduleKind::interleaved_one_f_one_b}) {
    const bool interleaved = kind == ScheduleKind::interleaved_one_f_one_b;
    const int stages = interleaved ? 4 : 3, meshes = interleaved ? 2 : stages;
    std::vector<Stage> on;
    for (int s = 0; s < stages; ++s) on.push_back({mesh_from(s % meshes, {1}), {}});
    for (int m = 1; m <= 7; ++m) {
      const Graph graph = training_graph({f32, {2 * m, 4}}, {f32, {2 * m, 2}},
                                         one_layer_per_stage(stages, 4), {.num_micro_batches = m});
      const spmd::SpmdProgram program = on_meshes(graph, on);
      for (int at_once : {0, 1, 2, 3}) {
        CAPTURE(name_of(kind));
        CAPTURE(m);
        CAPTURE(at_once);
        CHECK(mistake_of(programs_of(program, pipeline::make_schedule(kind, meshes, m,
                                                                      stages / meshes, at_once)),
                         program) == "");
      }
    }
  }
}

TEST_CASE("a message without a receiver, or of another box, is found out") {
  const spmd::SpmdProgram program = two_stages(2);
  std::vector<lower::DeviceProgram> devices = programs_of(program, pipeline::gpipe(2, 2));
  const auto message = [](std::vector<lower::Instruction>& list, lower::Instruction::Kind kind) {
    return std::find_if(list.begin(), list.end(),
                        [kind](const lower::Instruction& i) { return i.kind == kind; });
  };
  std::vector<lower::Instruction>& backward = devices[1].lists[1].instructions;
  message(backward, lower::Instruction::Kind::send)->message.extent[0] -= 1;
  CHECK(mistake_of(devices, program) ==
        "schedules: device 1 in backward of micro-batch 0, instruction 5 "
        "(\"einsum.grad/einsum.transfer\") sends "
        "a box of [3, 4] at [0, 0], but device 0 expects one of [4, 4] at [0, 0]");
  devices = programs_of(program, pipeline::gpipe(2, 2));
  devices[0].lists[2].instructions.push_back(
      *message(devices[0].lists[0].instructions, lower::Instruction::Kind::send));
  CHECK(mistake_of(devices, program) ==
        "schedules: device 0 in apply of micro-batch 0, instruction 4 (\"tanh.transfer\") sends a "
        "message that device 1 does not receive");
}

}  // namespace schedule_test
