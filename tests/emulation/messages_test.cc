// Two devices that send each other boxes, by lists made by hand: one on each of two meshes.
#include <doctest/doctest.h>

#include <cmath>

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "emulation.h"
#include "kernels/cuda/message_box.h"
#include "src/ir/recorder.h"
#include "src/lower/staging.h"
#include "src/runtime/backend.h"
#include "src/runtime/devices.h"
#include "support/steps.h"

namespace messages_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

using Kind = lower::Instruction::Kind;

constexpr std::int64_t kRows = 4, kColumns = 6;
const TensorType kWhole{f32, {kRows, kColumns}}, kPart{f32, {kRows, 3}};
const Shape kBegin = {0, 2};  // of the part in the whole: columns 2, 3 and 4

/// The sum over all micro-batches of exp(x)², of the part: device 0 makes exp(x) and
/// sums up, device 1 squares.
spmd::SpmdProgram squares(int micro_batches) {
  Recorder g(micro_batches);
  const Value x = g.input(InputKind::batch, "x", kWhole), a = exp(x), b = a * a;
  const Value total = micro_batch_sum("sum", b);
  g.set_region(Region::apply);
  g.metric("total", sum(total));
  spmd::SpmdProgram program;
  program.graph = g.finish();
  program.specs.resize(program.graph.values.size());
  program.meshes = {DeviceMesh({}, {0}), DeviceMesh({}, {1})};
  return program;
}

/// A device's program in the making: buffers one behind the other.
struct Maker {
  Maker(const spmd::SpmdProgram& program, int device) : program(program) {
    made.device = made.mesh = device;
    made.buffer_of_value.assign(program.graph.values.size(), -1);
  }

  int buffer(const TensorType& type, const Shape& offset, const Shape& whole, int slots = 1) {
    const std::int64_t bytes = (type.bytes() + 255) / 256 * 256;
    made.buffers.push_back({type, offset, whole, -1, made.arena_bytes, slots, bytes});
    made.arena_bytes += slots * bytes;
    return static_cast<int>(made.buffers.size()) - 1;
  }
  int bytes(std::int64_t bytes) { return buffer({u8, {bytes}}, {0}, {bytes}); }

  int node(std::string_view op) const {
    int n = 0;
    while (program.graph.nodes[n].op->name != op) ++n;
    return n;
  }

  static lower::Instruction compute(int node, std::vector<int> inputs, int output) {
    lower::Instruction instruction;
    instruction.node = node;
    instruction.inputs = std::move(inputs);
    instruction.outputs = {output};
    return instruction;
  }
  lower::Instruction message(Kind kind, int peer, int buffer) {
    lower::Instruction instruction;
    instruction.kind = kind;
    instruction.node = node("exp");
    (kind == Kind::send ? instruction.inputs : instruction.outputs) = {buffer};
    instruction.message.peer = peer, instruction.message.begin = kBegin,
    instruction.message.extent = kPart.shape;
    const lower::Buffer& b = made.buffers[buffer];
    const std::int64_t scratch = cuda::box_scratch_bytes(
        cuda::message_box({nullptr, b.type, b.offset, b.global_shape}, kBegin, kPart.shape), f32);
    if (scratch > 0) instruction.workspace = bytes(scratch);
    return instruction;
  }
  lower::Instruction wait(int awaits, int behind = 0) const {
    lower::Instruction instruction;
    instruction.kind = Kind::wait;
    instruction.node = node("exp");
    instruction.awaits = awaits, instruction.behind = behind;
    return instruction;
  }

  lower::DeviceProgram finish() {
    made.staging = bytes(lower::kStagedSteps * lower::staging_layout(made, program).bytes);
    return made;
  }

  const spmd::SpmdProgram& program;
  lower::DeviceProgram made;
};

/// The device that begins and ends. `together`: one list sends and receives the answer, else a list
/// sends for all micro-batches before another one receives.
lower::DeviceProgram first_device(const spmd::SpmdProgram& program, bool together) {
  Maker m(program, 0);
  const int x = m.buffer(kWhole, {0, 0}, kWhole.shape),
            a = m.buffer(kWhole, {0, 0}, kWhole.shape, 2),
            b = m.buffer(kPart, kBegin, kWhole.shape), sums = m.buffer(kPart, kBegin, kWhole.shape),
            total = m.buffer({f32, {}}, {}, {});
  for (const Input& input : program.graph.inputs)
    m.made.buffer_of_value[input.value] = input.kind == InputKind::batch ? x : sums;
  m.made.zeroed = {sums};
  m.made.reported = {{0, total}};
  lower::Instruction load = m.compute(m.node("input"), {}, x);
  load.kind = Kind::load;
  // What may not be sent yet is overwritten two micro-batches later.
  std::vector<lower::Instruction> send = {load, m.wait(3, 2), m.compute(m.node("exp"), {x}, a),
                                          m.message(Kind::send, 1, a)};
  std::vector<lower::Instruction> receive = {m.message(Kind::receive, 1, b),
                                             m.wait(together ? 4 : 0),
                                             m.compute(m.node("add"), {sums, b}, sums)};
  if (together) {
    send.insert(send.end(), receive.begin(), receive.end());
    m.made.lists = {{"both", send}};
  } else {
    m.made.lists = {{"forward", send}, {"backward", receive}};
  }
  const int lists = static_cast<int>(m.made.lists.size());
  m.made.lists.push_back({"apply", {m.compute(m.node("reduce_sum"), {sums}, total)}});
  for (int list = 0; list < lists; ++list)
    for (int i = 0; i < program.graph.num_micro_batches; ++i) m.made.schedule.push_back({list, i});
  m.made.schedule.push_back({lists, 0});
  return m.finish();
}

lower::DeviceProgram second_device(const spmd::SpmdProgram& program) {
  Maker m(program, 1);
  const int a = m.buffer(kPart, kBegin, kWhole.shape), b = m.buffer(kPart, kBegin, kWhole.shape, 2);
  const int square = m.node("mul");
  m.made.lists = {{"answer",
                   {m.message(Kind::receive, 0, a), m.wait(0), m.wait(4, 2),
                    m.compute(square, {a, a}, b), m.message(Kind::send, 0, b)}}};
  for (int i = 0; i < program.graph.num_micro_batches; ++i) m.made.schedule.push_back({0, i});
  return m.finish();
}

struct Mode {
  int cards;
  std::optional<bool> capture;
  bool check_instructions;
};

constexpr int kSteps = 5;

/// The metric of every step, of which as many as possible are under way, and the
/// graphs that were captured.
struct Outcome {
  std::vector<double> totals, expected;
  int graphs;
  comm::Count sent = {};  ///< by the first device in a step
};
Outcome run(int micro_batches, bool together, const Mode& mode) {
  emulation::restart({.devices = mode.cards});
  const spmd::SpmdProgram program = squares(micro_batches);
  runtime::DevicesRequest request{program,
                                  {first_device(program, together), second_device(program)}};
  request.tune = false;
  request.capture = mode.capture;
  request.check_instructions = mode.check_instructions;
  const auto devices = runtime::make_devices("cuda", std::move(request));
  const auto memory = devices->allocate();
  Outcome outcome{{}, {}, -emulation::totals().graphs};
  for (int step = 0, finished = 0; finished < kSteps; ++step) {
    if (step < kSteps) {
      const std::map<std::string, Array> batch = random_batch(program.graph, step);
      devices->start(*memory, {{batch.at("x").data(), nullptr}, {0, 0}, 0, step + 1});
      double total = 0;
      const std::vector<double> x = batch.at("x").to_doubles();
      for (std::size_t i = 0; i < x.size(); ++i)
        if (i % kColumns >= 2 && i % kColumns < 5) total += std::exp(2 * x[i]);
      outcome.expected.push_back(total);
    }
    if (step + 1 < devices->depth()) continue;
    outcome.totals.push_back(devices->finish().at(0));
    ++finished;
  }
  outcome.graphs += emulation::totals().graphs;
  outcome.sent = devices->counts(0).at(0).second.sent;
  return outcome;
}

const Mode kModes[] = {{1, true, false}, {1, false, false}, {1, {}, true},
                       {2, true, false}, {2, false, false}, {2, {}, true}};

void check_modes(int micro_batches, bool together) {
  const std::vector<double> first = run(micro_batches, together, kModes[0]).totals;
  for (const Mode& mode : kModes) {
    CAPTURE(mode.cards);
    CAPTURE(mode.check_instructions);
    const Outcome outcome = run(micro_batches, together, mode);
    CHECK(outcome.totals == first);
    CHECK(outcome.sent.calls == micro_batches);
    CHECK(outcome.sent.payload_bytes == micro_batches * kPart.bytes());
    for (int step = 0; step < kSteps; ++step)
      CHECK(outcome.totals[step] == doctest::Approx(outcome.expected[step]).epsilon(1e-5));
  }
}

}  // namespace

TEST_CASE("every micro-batch's box goes to the other mesh and back, within one list") {
  check_modes(7, true);
}

TEST_CASE("a device sends for all micro-batches before it receives the first answer") {
  check_modes(4, false);
}

TEST_CASE(
    "lists are captured per copy of what is sent and per segment, however many micro-batches run") {
  // Two copies of: the list up to the answer, the list behind it, the other device's; and apply.
  for (const int micro_batches : {2, 9})
    CHECK(run(micro_batches, true, kModes[0]).graphs == lower::kStagedSteps * (2 * 3 + 1));
}

TEST_CASE("schedules that wait for each other's messages are a bug") {
  // With five micro-batches the sender waits for a copy that the other device cannot take.
  for (const int mode : {1, 4})  // on one card and on two
    CHECK_THROWS_WITH_AS(run(6, false, kModes[mode]),
                         "the meshes' schedules deadlock: each waits for another's message", Bug);
}

}  // namespace messages_test
