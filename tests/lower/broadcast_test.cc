// A tensor that devices pass on in chunks: what their lists say, and which changes are refused.
#include <doctest/doctest.h>

#include "lower/mutants.h"
#include "src/lower/memory_plan.h"
#include "support/transfers.h"

namespace broadcast_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

using Kind = lower::Instruction::Kind;

/// Device 0 has the tensor; 1, 2 and 3 get it in two chunks.
spmd::SpmdProgram chain() {
  cost::PlannedTransfer way;
  way.strategy = cost::TransferStrategy::broadcast;
  way.route.chunks = 2;
  return moving_program(mesh_from(0, {1}), mesh_from(1, {3}),
                        {{{f32, {4}}, ShardingSpec::replicated(), ShardingSpec::replicated(), way}},
                        3);
}

Devices lowered_devices(const spmd::SpmdProgram& program) {
  Devices devices;
  for (int device : spmd::devices_of(program))
    devices.push_back(lower::lower(
        program, device, true, lower::memory_rules("cpu"),
        pipeline::make_schedule(ScheduleKind::inference, 2, program.graph.num_micro_batches)));
  return devices;
}

std::vector<lower::Instruction>& forward(lower::DeviceProgram& device) {
  return device.lists[0].instructions;
}

/// Kinds, with the first row of the box that is sent or received.
std::string text_of(const lower::DeviceProgram& device) {
  std::string text;
  for (const lower::Instruction& instruction : device.lists[0].instructions) {
    text += std::string(name_of(instruction.kind));
    if (!instruction.message.begin.empty())
      text += fmt::format(" {}", instruction.message.begin[0]);
    if (instruction.kind == Kind::wait)
      text += fmt::format(" {} back {}", instruction.awaits, instruction.behind);
    text += "\n";
  }
  return text;
}

/// Instruction `from` of a list moves to `to`; waits keep what they wait for.
void move(lower::DeviceProgram& device, int from, int to) {
  std::vector<lower::Instruction>& list = forward(device);
  lower::Instruction moved = list[from];
  list.erase(list.begin() + from);
  list.insert(list.begin() + to, std::move(moved));
  for (lower::Instruction& wait : list) {
    if (wait.kind != Kind::wait) continue;
    int& at = wait.awaits;
    at = at == from ? to : at - (at > from ? 1 : 0) + (at - (at > from ? 1 : 0) >= to ? 1 : 0);
  }
}

}  // namespace

TEST_CASE("a device passes a chunk on before the next one has arrived") {
  const Devices devices = lowered_devices(chain());
  CHECK(text_of(devices[0]) == "wait 3 back 2\nwait 4 back 2\nload\nsend 0\nsend 2\n");
  CHECK(text_of(devices[1]) ==
        "receive 0\nreceive 2\nwait 0 back 0\nsend 0\nwait 1 back 0\nsend 2\n");
  CHECK(text_of(devices[3]) == "receive 0\nreceive 2\nwait 0 back 0\nwait 1 back 0\n");
}

TEST_CASE("broadcasts that pass on too early, too late, the wrong box or not at all are refused") {
  const spmd::SpmdProgram program = chain();
  const Devices devices = lowered_devices(program);
  lower::verify_schedules(devices, program);
  const std::vector<Mutant> mutants = {
      {"passed on before it has arrived", [](Devices& d) { move(d[1], 3, 2); },
       "device 1 in forward of micro-batch 0, instruction 2 (\"move0\") reads \"move0\" before it "
       "has arrived"},
      {"wait for the other chunk",
       [](Devices& d) { std::swap(forward(d[1])[2].awaits, forward(d[1])[4].awaits); },
       "device 1 in forward of micro-batch 0, instruction 3 (\"move0\") reads \"move0\" before it "
       "has arrived"},
      {"passed on before it is received", [](Devices& d) { move(d[1], 3, 0); },
       "device 1 in forward of micro-batch 0, instruction 0 (\"move0\") reads \"move0\", but "
       "nothing has written it"},
      {"passed on when only the other chunk was received",
       [](Devices& d) {
         move(d[1], 1, 5);
         move(d[1], 3, 5);
       },
       "device 1 in forward of micro-batch 0, instruction 3 (\"move0\") reads \"move0\", of which "
       "not all was received"},
      {"chunks in the wrong order",
       [](Devices& d) { std::swap(forward(d[1])[3].message, forward(d[1])[5].message); },
       "device 1 in forward of micro-batch 0, instruction 3 (\"move0\") sends a box of [2] at [2], "
       "but device 2 expects one of [2] at [0]"},
      {"not passed on", [](Devices& d) { forward(d[1]).pop_back(); },
       "device 1 in forward of micro-batch 1, instruction 3 (\"move0\") sends a box of [2] at [0], "
       "but device 2 expects one of [2] at [2]"},
      {"overwritten while it is passed on",
       [](Devices& d) {
         for (lower::Buffer& buffer : d[1].buffers) buffer.slots = 1;
       },
       "device 1 in forward of micro-batch 1, instruction 0 (\"move0\") overwrites \"move0\", "
       "which may still be in use"},
      {"sent as if it were the operand",
       [](Devices& d) { forward(d[1])[5].message.passed_on = false; },
       "device 1 in forward, instruction 5 (\"move0\") moves another buffer than that of its "
       "value"},
      {"sent to the wrong device", [](Devices& d) { forward(d[1])[5].message.peer = 3; },
       "device 1 in forward of micro-batch 1, instruction 3 (\"move0\") sends a box of [2] at [0], "
       "but device 2 expects one of [2] at [2]"},
  };
  check_rejected(mutants, devices, program);
}

}  // namespace broadcast_test
