// Devices of a stage whose parts and messages are alike are lowered once: programs made from those
// of their classes are those that are lowered device by device.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <random>

#include "src/lower/memory_plan.h"
#include "src/lower/rank_classes.h"
#include "src/report/pipeline_forecast.h"
#include "src/runtime/executor.h"
#include "support/gpt_stack.h"
#include "support/nightly.h"
#include "support/transfers.h"

namespace stage_classes_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// All that a program says, messages that are passed on too.
std::string whole_text(const lower::DeviceProgram& device, const spmd::SpmdProgram& program) {
  std::string text = to_string(device, program) + fmt::format("rank {}\n", device.rank);
  for (const lower::Buffer& buffer : device.buffers)
    text += fmt::format("{} {} {} {}\n", to_string(buffer.offset), buffer.alias_of, buffer.slots,
                        buffer.slot_bytes);
  for (const lower::InstructionList& list : device.lists)
    for (const lower::Instruction& instruction : list.instructions)
      text += instruction.message.passed_on ? '+' : '-';
  return text;
}

/// Number of classes. Every device's program is compared with the one that is lowered alone.
std::size_t check_classes(const spmd::SpmdProgram& program,
                          const pipeline::PipelineSchedule& schedule) {
  std::size_t classes = 0;
  for (const char* backend : {"cpu", "cuda"}) {  // the latter has scratch for messages
    CAPTURE(backend);
    const lower::MemoryRules rules = lower::memory_rules(backend, 1);
    std::vector<lower::DeviceProgram> firsts = lower::lower_classes(program, true, rules, schedule);
    classes = firsts.size();
    const std::vector<lower::DeviceProgram> all =
        lower::programs_of_all(program, std::move(firsts));
    const std::vector<int> devices = spmd::devices_of(program);
    REQUIRE(all.size() == devices.size());
    for (std::size_t d = 0; d < all.size(); ++d) {
      const lower::DeviceProgram alone = lower::lower(program, devices[d], true, rules, schedule);
      CAPTURE(devices[d]);
      CHECK(whole_text(all[d], program) == whole_text(alone, program));
      CHECK(all[d].arena_bytes == alone.arena_bytes);
    }
    lower::verify_schedules(all, program);
  }
  return classes;
}

/// Number of classes of a planned step.
std::size_t check_classes(const CompiledStep& planned) {
  return check_classes(*planned.program, schedule_of(planned.plan));
}

/// Blocks of attention and residuals, whose embedding the logits share.
TrainingStep gpt(std::int64_t batch) {
  return gpt_step({.layers = 6,
                   .batch = batch,
                   .sequence = 4,
                   .hidden = 12,
                   .heads = 3,
                   .vocabulary = 26,
                   .causal = true});
}

PipeshardParallel stages_of(int stages, int micro_batches, ScheduleKind schedule,
                            int stages_per_part = 1) {
  return {.num_micro_batches = micro_batches,
          .stages = UniformStages{stages, stages_per_part},
          .schedule = schedule};
}

}  // namespace

TEST_CASE("programs of stages made from those of their classes are those lowered alone") {
  using enum ScheduleKind;
  for (const ScheduleKind kind : {one_f_one_b, gpipe, one_f_one_b_overlap, zero_bubble})
    for (const auto& [devices, stages, batch] :
         {std::tuple(8, 2, 16), {8, 4, 12}, {3, 2, 12}, {5, 2, 20}, {7, 3, 28}}) {
      CAPTURE(name_of(kind));
      CAPTURE(devices);
      CHECK(check_classes(plan_only(gpt(batch), stages_of(stages, 4, kind),
                                    Cluster::local(devices))) <= static_cast<std::size_t>(devices));
    }
}

TEST_CASE("so are those of several stages on the same devices, with logical shapes of their own") {
  const PipeshardParallel method = stages_of(4, 4, ScheduleKind::interleaved_one_f_one_b, 2);
  check_classes(plan_only(gpt(16), method, Cluster::local(8)));
  check_classes(plan_only(gpt(12), method, Cluster::local(6)));
  check_classes(plan_only(gpt(20), method, Cluster::local(5)));
}

TEST_CASE("so are those of stages of different sizes and shapes") {
  const ManualStages stages{
      .layers = {{0, 1}, {2}, {3, 4, 5}}, .devices = {1, 4, 2}, .mesh_shapes = {{1}, {2, 2}, {2}}};
  for (const std::int64_t batch : {8, 20})
    check_classes(plan_only(gpt(batch), PipeshardParallel{.num_micro_batches = 4, .stages = stages},
                            Cluster::local(7)));
}

TEST_CASE("so are those of devices that send along any layouts, directly and in chains") {
  std::mt19937 random(7);
  Cluster cluster = Cluster::local(12);
  const DeviceMesh meshes[] = {mesh_of({4}), mesh_of({2, 3}), mesh_of({3}), mesh_of({2, 2})};
  for (int round = 0; round < testing::sampled(15, 40); ++round) {
    cluster.devices_per_host = round % 2 == 0 ? 12 : 3;
    cluster.num_hosts = 12 / cluster.devices_per_host;
    const DeviceMesh& from = meshes[random() % 4];
    const DeviceMesh to =
        mesh_from(from.num_devices(), random() % 2 == 0 ? std::vector<int>{2, 2} : std::vector{5});
    std::vector<Moved> moved;
    for (int kind = 0; kind < 4; ++kind) {
      const TensorType type = random_type(random);
      Moved tensor{type, random_input_spec(type, from, random), random_spec(type, to, random), {}};
      tensor.way = way_of(kind, type, {from, tensor.from}, {to, tensor.to}, cluster, random);
      moved.push_back(std::move(tensor));
    }
    const spmd::SpmdProgram program = moving_program(from, to, moved, 3);
    CAPTURE(to_string(program));
    check_classes(program, pipeline::make_schedule(ScheduleKind::inference, 2, 3));
  }
}

TEST_CASE("an evenly split stage is lowered once, however many devices and micro-batches it has") {
  for (const int devices : {8, 16})
    for (const int stages : {2, 4}) {
      CAPTURE(devices);
      CAPTURE(stages);
      PipeshardParallel method = stages_of(stages, 8, ScheduleKind::one_f_one_b);
      method.mesh_shape = {devices / stages};
      const CompiledStep planned =
          plan_only(gpt_step({.layers = 8, .batch = 128, .sequence = 4, .hidden = 16, .heads = 8}),
                    method, Cluster::local(devices));
      CHECK(planned.lowered->firsts.size() == static_cast<std::size_t>(stages));
    }
}

}  // namespace stage_classes_test
