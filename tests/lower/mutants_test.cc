// Wrong device programs are rejected before they run, with the instruction named.
#include <doctest/doctest.h>

#include <utility>

#include "lower/mutants.h"
#include "src/ir/recorder.h"
#include "src/lower/memory_plan.h"
#include "support/two_meshes.h"

namespace mutants_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

using Kind = lower::Instruction::Kind;

constexpr int kMicroBatches = 4;

/// Two values cross between the layers.
Value model(Recorder& g, Value x, Value y) {
  g.set_layer(0);
  const Value product = matmul(x, g.parameter("w0", {f32, {4, 4}}, Initializer::normal(0, 0.3)));
  const Value h = tanh(product + g.parameter("b0", {f32, {4}}, Initializer::normal(0, 0.3)));
  g.set_layer(1);
  const Value w = g.parameter("w1", {f32, {4, 2}}, Initializer::normal(0, 0.3));
  const Value loss = mean(square(matmul(tanh(h * product), w) - y));
  g.set_layer(-1);
  return loss;
}

/// 2 + 2 devices. The first mesh splits the batch, the second one columns.
spmd::SpmdProgram program_of_mutants() {
  const Graph graph = training_graph(
      {f32, {16, 4}}, {f32, {16, 2}}, model,
      {.num_micro_batches = kMicroBatches, .optimizer = alpa::testing::StepOptimizer::sgd});
  return on_meshes(graph, {{mesh_from(0, {2}), {{"x", "S0@0"}}},
                           {mesh_from(2, {2}), {{"cut0", "S1@0"}, {"cut1", "S1@0"}}}});
}

Devices lowered_devices(const spmd::SpmdProgram& program) {
  Devices devices;
  for (int device : spmd::devices_of(program))
    devices.push_back(lower::lower(program, device, true, lower::memory_rules("cpu"),
                                   pipeline::one_f_one_b(2, kMicroBatches)));
  return devices;
}

constexpr int kForward = 0, kBackward = 1, kApply = 2;

std::vector<lower::Instruction>& list_of(lower::DeviceProgram& device, int list) {
  return device.lists[list].instructions;
}

/// Position of the `nth` instruction of this kind in a list.
int find(lower::DeviceProgram& device, int list, Kind kind, int nth = 0) {
  const std::vector<lower::Instruction>& instructions = list_of(device, list);
  for (int i = 0; i < static_cast<int>(instructions.size()); ++i)
    if (instructions[i].kind == kind && nth-- == 0) return i;
  FAIL("no such instruction");
  return -1;
}

lower::Instruction& get(lower::DeviceProgram& device, int list, Kind kind, int nth = 0) {
  return list_of(device, list)[find(device, list, kind, nth)];
}

/// Waits keep what they wait for when instructions move: position i goes to `place(i)`.
template <class Place>
void renumber(lower::DeviceProgram& device, int list, Place&& place) {
  for (int l = 0; l < static_cast<int>(device.lists.size()); ++l)
    for (lower::Instruction& wait : list_of(device, l))
      if (wait.kind == Kind::wait && (wait.awaits_list < 0 ? l : wait.awaits_list) == list)
        wait.awaits = place(wait.awaits);
}

/// Along with the waits for it.
void drop(lower::DeviceProgram& device, int list, int at) {
  std::vector<lower::Instruction>& instructions = list_of(device, list);
  for (int i = static_cast<int>(instructions.size()); i-- > 0;)
    if (instructions[i].kind == Kind::wait && instructions[i].awaits == at) {
      drop(device, list, i);
      if (i < at) --at;
    }
  instructions.erase(instructions.begin() + at);
  renumber(device, list, [at](int i) { return i > at ? i - 1 : i; });
}

void repeat(lower::DeviceProgram& device, int list, int at) {
  std::vector<lower::Instruction>& instructions = list_of(device, list);
  instructions.insert(instructions.begin() + at, lower::Instruction(instructions[at]));
  renumber(device, list, [at](int i) { return i >= at ? i + 1 : i; });
}

void exchange(lower::DeviceProgram& device, int list, int a, int b) {
  std::swap(list_of(device, list)[a], list_of(device, list)[b]);
  renumber(device, list, [=](int i) { return i == a ? b : i == b ? a : i; });
}

std::vector<Mutant> mutants_of_lanes() {
  return {
      {"send dropped", [](Devices& d) { drop(d[0], kForward, find(d[0], kForward, Kind::send)); },
       "device 0 in forward of micro-batch 0, instruction 7 (\"einsum.transfer\") sends "
       "to device 2 in forward of micro-batch 0, instruction 0 (\"tanh.transfer\"), "
       "which expects another value"},
      {"receive dropped",
       [](Devices& d) { drop(d[2], kForward, find(d[2], kForward, Kind::receive)); },
       "device 0 in forward of micro-batch 0, instruction 7 (\"tanh.transfer\") sends to"
       " device 2 in forward of micro-batch 0, instruction 1 (\"einsum.transfer\"), "
       "which expects another value"},
      {"send doubled",
       [](Devices& d) { repeat(d[0], kForward, find(d[0], kForward, Kind::send, 1)); },
       "device 0 in forward of micro-batch 0, instruction 9 (\"tanh.transfer\") sends to"
       " device 3 in forward of micro-batch 0, instruction 3 (\"einsum.transfer\"), "
       "which expects another value"},
      {"receive doubled",
       [](Devices& d) { repeat(d[2], kForward, find(d[2], kForward, Kind::receive)); },
       "device 0 in forward of micro-batch 0, instruction 9 (\"einsum.transfer\") sends "
       "to device 2 in forward of micro-batch 0, instruction 1 (\"tanh.transfer\"), "
       "which expects another value"},
      {"receives of one lane swapped",
       [](Devices& d) {
         exchange(d[2], kForward, find(d[2], kForward, Kind::receive),
                  find(d[2], kForward, Kind::receive, 2));
       },
       "device 0 in forward of micro-batch 0, instruction 7 (\"tanh.transfer\") sends to"
       " device 2 in forward of micro-batch 0, instruction 0 (\"einsum.transfer\"), "
       "which expects another value"},
      {"box of another extent",
       [](Devices& d) { get(d[0], kForward, Kind::send).message.extent[0] = 1; },
       "device 0 in forward of micro-batch 0, instruction 7 (\"tanh.transfer\") sends a "
       "box of [1, 2] at [0, 0], but device 2 expects one of [2, 2] at [0, 0]"},
      {"box at another place",
       [](Devices& d) { get(d[0], kForward, Kind::send).message.begin[0] = 1; },
       "device 0 in forward of micro-batch 0, instruction 7 (\"tanh.transfer\") sends a "
       "box of [2, 2] at [1, 0], but device 2 expects one of [2, 2] at [0, 0]"},
  };
}

std::vector<Mutant> mutants_of_boxes() {
  return {
      {"box of another extent on both sides",
       [](Devices& d) {
         get(d[0], kForward, Kind::send).message.extent[0] = 1;
         get(d[2], kForward, Kind::receive).message.extent[0] = 1;
       },
       "device 0, forward: no instruction sends the box of [2, 2] at [0, 0] of "
       "\"tanh.transfer\", device 2"},
      {"sent to another peer", [](Devices& d) { get(d[0], kForward, Kind::send).message.peer = 3; },
       "device 0 in forward of micro-batch 0, instruction 9 (\"einsum.transfer\") sends "
       "to device 2 in forward of micro-batch 0, instruction 0 (\"tanh.transfer\"), "
       "which expects another value"},
      {"sent in another lane", [](Devices& d) { get(d[0], kForward, Kind::send).message.lane = 7; },
       "device 0 in forward of micro-batch 0, instruction 9 (\"einsum.transfer\") sends "
       "to device 2 in forward of micro-batch 0, instruction 0 (\"tanh.transfer\"), "
       "which expects another value"},
      {"another buffer sent",
       [](Devices& d) {
         get(d[0], kForward, Kind::send).inputs = get(d[0], kForward, Kind::load).outputs;
       },
       "device 0 in forward, instruction 7 (\"tanh.transfer\") moves another buffer than"
       " that of its value"},
      {"received into another buffer",
       [](Devices& d) {
         get(d[2], kForward, Kind::receive).outputs = get(d[2], kForward, Kind::receive, 2).outputs;
       },
       "device 2 in forward, instruction 0 (\"tanh.transfer\") moves another buffer than"
       " that of its value"},
  };
}

std::vector<Mutant> mutants_of_waits() {
  return {
      {"wait for a received box dropped",
       [](Devices& d) { drop(d[2], kForward, find(d[2], kForward, Kind::wait)); },
       "device 2 in forward of micro-batch 0, instruction 7 (\"mul+tanh\") reads "
       "\"tanh.transfer\" before it has arrived"},
      {"wait for a sent copy dropped",
       [](Devices& d) { drop(d[0], kForward, find(d[0], kForward, Kind::wait)); },
       "device 0 in forward of micro-batch 2, instruction 2 (\"einsum\") overwrites "
       "\"einsum\", which may still be in use"},
      {"wait for a collective dropped",
       [](Devices& d) {
         for (int i : {2, 3}) {
           const int start = find(d[i], kBackward, Kind::start);
           for (int w = 0;; ++w)
             if (get(d[i], kBackward, Kind::wait, w).awaits == start)
               return drop(d[i], kBackward, find(d[i], kBackward, Kind::wait, w));
         }
       },
       "device 2 in backward of micro-batch 0, instruction 5 (\"einsum.grad/einsum\") "
       "reads \"add.all_reduce+1\" before it has arrived"},
      {"wait behind what reads",
       [](Devices& d) {
         int last = find(d[2], kForward, Kind::wait);
         while (list_of(d[2], kForward)[last].kind == Kind::wait) ++last;
         exchange(d[2], kForward, last - 1, last);
       },
       "device 2 in forward of micro-batch 0, instruction 7 (\"mul+tanh\") reads "
       "\"einsum.transfer\" before it has arrived"},
      {"wait for another instruction",
       [](Devices& d) {
         get(d[2], kForward, Kind::wait).awaits = find(d[2], kForward, Kind::compute);
       },
       "device 2 in forward of micro-batch 0, instruction 4 (\"tanh.transfer\") waits "
       "for instruction 8, which starts nothing"},
      {"wait for too early a run", [](Devices& d) { get(d[0], kForward, Kind::wait).behind = 3; },

       "device 0 in forward of micro-batch 2, instruction 3 (\"einsum\") overwrites "
       "\"einsum\", which may still be in use"},
      {"too few copies",
       [](Devices& d) {
         for (lower::Buffer& buffer : d[0].buffers)
           if (buffer.slots == 2) buffer.slots = 1;
       },
       "device 0 in forward of micro-batch 1, instruction 3 (\"einsum\") overwrites "
       "\"einsum\", which may still be in use"},
  };
}

std::vector<Mutant> mutants_of_runs() {
  return {
      {"meshes that wait for each other",
       [](Devices& d) {
         for (int i : {0, 1}) std::swap(d[i].schedule[1], d[i].schedule[2]);
         for (int i : {2, 3}) std::swap(d[i].schedule[1], d[i].schedule[2]);
       },
       "device 0 in backward of micro-batch 0, instruction 2 (\"mul.grad/mul.transfer\")"
       " waits for device 2, device 2 in forward of micro-batch 1, instruction 4 "
       "(\"tanh.transfer\") waits for device 0"},
      {"list run twice",
       [](Devices& d) { d[0].schedule.insert(d[0].schedule.begin(), d[0].schedule[0]); },
       "device 0 in forward of micro-batch 3, instruction 7 (\"tanh.transfer\") sends a "
       "message that device 2 does not receive"},
      {"run missing on all devices",
       [](Devices& d) {
         for (lower::DeviceProgram& device : d) std::erase(device.schedule, lower::ListRun{1, 3});
       },
       "device 0 in backward (first \"mul.grad/mul.transfer\"): runs of micro-batches "
       "[0, 1, 2], but it needs [0, 1, 2, 3]"},
      {"apply missing on all devices",
       [](Devices& d) {
         for (lower::DeviceProgram& device : d) device.schedule.pop_back();
       },
       "device 0 in apply (first \"learning_rate\"): runs of micro-batches [], but it "
       "needs [0]"},
      {"micro-batches of a list swapped on all devices",
       [](Devices& d) {
         for (lower::DeviceProgram& device : d)
           for (lower::ListRun& run : device.schedule)
             if (run.list == kForward && run.micro_batch > 1) run.micro_batch = 5 - run.micro_batch;
       },
       "device 0 in forward (first \"x\"): runs of micro-batches [0, 1, 3, 2], but it "
       "needs [0, 1, 2, 3]"},
  };
}

std::vector<Mutant> mutants_of_work() {
  return {
      {"metric read from state", [](Devices& d) { d[2].reported[0].buffer = d[2].kept[0]; },
       "device 2: metric \"loss\" is read from state after its update"},
      {"kernel dropped",
       [](Devices& d) { drop(d[0], kBackward, find(d[0], kBackward, Kind::compute, 1)); },
       "device 0, backward: no instruction computes \"add.grad/reduce_sum\" (reduce_sum)"},
      {"kernel run twice",
       [](Devices& d) { repeat(d[0], kBackward, find(d[0], kBackward, Kind::compute, 1)); },
       "device 0 in backward, instruction 7 (\"add.grad/reduce_sum\") computes the node "
       "a second time"},
      {"kernels swapped",
       [](Devices& d) {
         exchange(d[0], kForward, find(d[0], kForward, Kind::compute),
                  find(d[0], kForward, Kind::compute, 1));
       },
       "device 0 in forward of micro-batch 0, instruction 3 (\"add+tanh\") reads "
       "\"einsum\", but nothing has written it"},
      {"kernel of another operand",
       [](Devices& d) {
         get(d[0], kForward, Kind::compute, 1).inputs[0] =
             get(d[0], kForward, Kind::load).outputs[0];
       },
       "device 0 in forward, instruction 6 (\"add+tanh\") uses other buffers than those "
       "of its values"},
      {"load dropped", [](Devices& d) { drop(d[0], kBackward, find(d[0], kBackward, Kind::load)); },
       "device 0 in backward of micro-batch 0, instruction 15 (\"einsum.grad/einsum\") "
       "reads \"x\", but its memory holds \"x\" of micro-batch 1"},
      {"copy dropped", [](Devices& d) { drop(d[2], kForward, find(d[2], kForward, Kind::copy)); },
       "device 2, forward: no instruction computes \"w1.slice_shard\" (slice_shard)"},
      {"fill dropped", [](Devices& d) { drop(d[1], kBackward, find(d[1], kBackward, Kind::fill)); },
       "device 1, backward: no instruction computes \"gradient1.to_partial\" "
       "(to_partial)"},
  };
}

std::vector<Mutant> mutants_of_collectives() {
  return {
      {"collective dropped on one device",
       [](Devices& d) { drop(d[0], kBackward, find(d[0], kBackward, Kind::collective)); },
       "device 0 in backward of micro-batch 1, instruction 18 (\"add.all_reduce\") "
       "waits for device 1, device 1 in backward of micro-batch 0, instruction 20 "
       "(\"add.all_reduce\") waits for device 0"},
      {"gradient not reduced",
       [](Devices& d) {
         for (int i : {0, 1}) drop(d[i], kBackward, find(d[i], kBackward, Kind::collective));
       },
       "device 0, backward: no instruction computes \"add.all_reduce\" (all_reduce)"},
      {"gradient reduced twice",
       [](Devices& d) {
         for (int i : {0, 1}) repeat(d[i], kBackward, find(d[i], kBackward, Kind::collective));
       },
       "device 0 in backward, instruction 19 (\"add.all_reduce\") computes the node a "
       "second time"},
      {"collective without a member",
       [](Devices& d) { get(d[0], kBackward, Kind::collective).call.group = {0}; },
       "device 0 in backward of micro-batch 1, instruction 19 (\"add.all_reduce\") "
       "waits for device 1, device 1 in backward of micro-batch 0, instruction 20 "
       "(\"add.all_reduce\") waits for device 0"},
      {"collective of another kind",
       [](Devices& d) {
         for (int i : {0, 1})
           get(d[i], kBackward, Kind::collective).call.kind = CollectiveKind::all_gather;
       },
       "device 0 in backward, instruction 18 (\"add.all_reduce\") calls another "
       "collective, or another group"},
      {"collective of another chunk on one device",
       [](Devices& d) { get(d[2], kForward, Kind::collective).call.dims[0].chunk = 1; },
       "device 3 in forward of micro-batch 0, instruction 13 (\"sub.reduce_scatter\") "
       "and device 2 in forward of micro-batch 0, instruction 13 "
       "(\"sub.reduce_scatter\") meet in one call of their group, but differ"},
      {"collectives in another order on one device",
       [](Devices& d) {
         exchange(d[2], kBackward, find(d[2], kBackward, Kind::start),
                  find(d[2], kBackward, Kind::start, 1));
       },
       "device 2 in backward of micro-batch 0, instruction 2 "
       "(\"einsum.grad/einsum.reduce_scatter\") and device 3 in backward of "
       "micro-batch 0, instruction 3 (\"add.all_reduce+1\") meet in one call of their "
       "group, but differ"},
  };
}

std::vector<Mutant> mutants_of_memory() {
  return {
      {"accumulator not cleared", [](Devices& d) { d[0].zeroed.pop_back(); },
       "device 0: accumulator \"gradient1\" is cleared 0 times"},
      {"state not kept", [](Devices& d) { d[0].kept.pop_back(); },
       "device 0: state \"b0\" is kept 0 times"},
      {"buffer of another shape",
       [](Devices& d) {
         const int loaded = get(d[0], kForward, Kind::load).outputs[0];
         d[0].buffers[loaded].type.shape[0] += 1;
       },
       "device 0: buffer 4 of \"x\" is f32[3, 4], but its part of the value is f32[2, "
       "4]"},
      {"state not updated",
       [](Devices& d) {
         lower::Instruction& last = get(d[0], kApply, Kind::collective);
         d[0].buffers[last.outputs[0]].alias_of = -1;
       },
       "device 0: nothing updates \"w0\""},
      {"result over an operand that is read later",
       [](Devices& d) {
         const int product = get(d[0], kForward, Kind::compute).outputs[0];
         d[0].buffers[get(d[0], kForward, Kind::compute, 1).outputs[0]].alias_of = product;
       },
       "device 0 in forward of micro-batch 0, instruction 9 (\"einsum.transfer\") reads "
       "\"einsum\", but its memory holds \"add+tanh\" of micro-batch 0"},
  };
}

}  // namespace

TEST_CASE("wrong device programs are rejected, with the instruction named") {
  const spmd::SpmdProgram program = program_of_mutants();
  const Devices devices = lowered_devices(program);
  lower::verify_schedules(devices, program);
  std::vector<Mutant> mutants;
  for (const auto& of : {mutants_of_lanes, mutants_of_boxes, mutants_of_waits, mutants_of_runs,
                         mutants_of_work, mutants_of_collectives, mutants_of_memory})
    for (const Mutant& mutant : of()) mutants.push_back(mutant);
  CHECK(mutants.size() == 44);
  check_rejected(mutants, devices, program);
}

}  // namespace mutants_test
