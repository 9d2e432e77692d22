// src/runtime/device.cc — the interpreter of device programs
#include "device.h"

#include <algorithm>
#include <utility>

#include "alpa/base/error.h"
#include "alpa/ir/input.h"
#include "alpa/runtime/kernel_call.h"
#include "alpa/runtime/staging.h"
#include "alpa/tensor/element.h"

namespace alpa {
namespace {

using Kind = Instruction::Kind;

/// Bytes below which clearing memory is not worth sharing among threads.
constexpr std::int64_t kClearGrain = 128 * 1024;

/// Thrown on a device that stops because another one failed.
struct Stopped {};

void run_collective(comm::Group& group, int member, const CollectiveCall& call, const KernelCall& tensors) {
  const auto& in = tensors.inputs;
  const auto& out = tensors.outputs;
  switch (call.kind) {
    case CollectiveKind::all_reduce: return group.all_reduce(member, in, out, call.combiner);
    case CollectiveKind::reduce_scatter:
      return group.reduce_scatter(member, in, out, call.dims, call.combiner);
    case CollectiveKind::all_gather: return group.all_gather(member, in, out, call.dims);
    case CollectiveKind::all_to_all:
      return group.all_to_all(member, in[0], out[0], call.dims[0], call.from_dim);
  }
}

/// Scratch counts as used whole, though libraries ask for more than they write. Between steps nothing lives
/// there.
__attribute__((no_sanitize_address)) void count_as_written(std::byte* byte) { *byte = std::byte{0}; }

void fill(const KernelTensor& tensor, double value) {
  const auto size = static_cast<std::int64_t>(size_of(tensor.type.dtype));
  for (std::int64_t i = 0; i < tensor.type.elements(); ++i)
    store_element(tensor.type.dtype, tensor.data + i * size, value);
}

}  // namespace

void Failure::record(Record record) noexcept {
  if (claimed_.exchange(true)) return;
  record_ = std::move(record);
  failed_.store(true, std::memory_order_release);
}

Failure::Record Failure::take() noexcept {
  failed_ = claimed_ = false;
  return std::exchange(record_, {});
}

Device::Device(DeviceProgram program, Surroundings surroundings, int index, int num_threads)
    : program_(std::move(program)),
      around_(surroundings),
      index_(index),
      team_(num_threads),
      guard_(program_),
      patience_(2 * surroundings.devices) {
  for (int l = 0; l < static_cast<int>(program_.lists.size()); ++l) lists_.push_back(load_list(l));
}

bool Device::communicates() const {
  return std::any_of(lists_.begin(), lists_.end(), [](const List& list) { return !list.started.empty(); });
}

Device::List Device::load_list(int l) {
  List list;
  list.first_position = alpa::first_position(program_, l);
  const std::vector<Instruction>& instructions = program_.lists[l].instructions;
  for (int i = 0; i < static_cast<int>(instructions.size()); ++i) {
    int ticket = -1;
    if (instructions[i].kind == Kind::start) {
      ticket = static_cast<int>(list.started.size());
      list.started.push_back(i);
    }
    if (instructions[i].kind == Kind::wait) ticket = list.operations[instructions[i].awaits].ticket;
    list.operations.push_back(load_operation(instructions[i], ticket));
  }
  return list;
}

Device::Operation Device::load_operation(const Instruction& instruction, int ticket) {
  Operation operation;
  operation.instruction = &instruction;
  operation.ticket = ticket;
  if (instruction.kind == Kind::compute) {
    const KernelDef& kernel = *around_.program.graph.nodes[instruction.node].op->cpu;
    operation.call = kernel_call(program_, around_.program, instruction, team_.size());
    operation.call.team = &team_;
    operation.call.step = &context_;
    operation.run = kernel.run;
    if (kernel.prepare) operation.call.prepared = kernel.prepare(operation.call);
    check_scratch(instruction, kernel, operation.call);
    return operation;
  }
  operation.call = tensors_of(program_, instruction);
  if (instruction.kind == Kind::collective)
    operation.membership = around_.groups.join(instruction.call.group, program_.device);
  if (instruction.kind == Kind::start)
    operation.membership = around_.communication_groups.join(instruction.call.group, program_.device);
  if (instruction.kind == Kind::load) load_input(operation);
  if (instruction.kind == Kind::copy) {
    const KernelTensor &from = operation.call.inputs[0], &to = operation.call.outputs[0];
    Shape begin = to.offset;
    for (std::size_t d = 0; d < begin.size(); ++d) begin[d] -= from.offset[d];
    operation.box =
        BoxCopy::make(from.type.shape, begin, to.type.shape, Shape(begin.size(), 0), to.type.shape);
  }
  return operation;
}

/// No kernel may need more scratch than was planned, for a team of another size, say.
void Device::check_scratch(const Instruction& instruction, const KernelDef& kernel,
                           const KernelCall& call) {
  const std::int64_t needed = kernel.workspace_bytes ? kernel.workspace_bytes(call) : 0;
  const std::int64_t planned =
      instruction.workspace >= 0 ? program_.buffers[instruction.workspace].type.bytes() : 0;
  invariant(needed <= planned, "{}: {} bytes of scratch for {} threads, but {} were planned",
            to_string(place_of({&instruction, 0}), program_, around_.program), needed, call.threads,
            planned);
}

/// The device's slice of a batch array, which holds all micro-batches one after the other along dimension
/// 0.
void Device::load_input(Operation& operation) {
  const Graph& graph = around_.program.graph;
  const int value = graph.nodes[operation.instruction->node].results[0];
  operation.input = loaded_input(around_.program, *operation.instruction);
  if (graph.inputs[operation.input].kind != InputKind::batch) return;
  const KernelTensor& to = operation.call.outputs[0];
  operation.box =
      BoxCopy::make(to.global_shape, to.offset, to.type.shape, Shape(to.offset.size(), 0), to.type.shape);
  operation.micro_batch_stride = graph.type(value).bytes();
}

void Device::place(std::byte* arena) {
  if (arena_ == arena) return;
  arena_ = arena;
  for (List& list : lists_)
    for (Operation& operation : list.operations) {
      const Instruction& instruction = *operation.instruction;
      for (std::size_t i = 0; i < operation.call.inputs.size(); ++i)
        operation.call.inputs[i].data = tensor(instruction.inputs[i]).data;
      for (std::size_t i = 0; i < operation.call.outputs.size(); ++i)
        operation.call.outputs[i].data = tensor(instruction.outputs[i]).data;
      if (instruction.workspace < 0) continue;
      operation.call.workspace = tensor(instruction.workspace).data;
      count_as_written(operation.call.workspace + program_.buffers[instruction.workspace].type.bytes() - 1);
    }
}

KernelTensor Device::tensor(int buffer) const {
  KernelTensor tensor = kernel_tensor(program_, buffer);
  const std::int64_t offset = program_.buffers[buffer].arena_offset;
  if (arena_ && offset >= 0) tensor.data = arena_ + offset;
  return tensor;
}

void Device::prepare_step() {
  issued_.store(0, std::memory_order_relaxed);
  finished_.store(0, std::memory_order_relaxed);
}

void Device::stop() {
  for (auto* counter : {&issued_, &finished_}) {
    counter->fetch_or(kStopped);
    patience_.wake(*counter);
  }
}

// ---- one step

bool Device::step(const StepInputs& inputs) {
  return guarded(at_, [&] { run_step(inputs); });
}

bool Device::communicate() {
  return guarded(communicating_, [&] { communicate_all(); });
}

template <class Part>
bool Device::guarded(const Progress& progress, Part&& part) {
  try {
    part();
    return true;
  } catch (const Stopped&) {
  } catch (const comm::Aborted&) {
  } catch (...) {
    around_.failure.record({place_of(progress), std::current_exception()});
  }
  return false;
}

StepPlace Device::place_of(const Progress& progress) const {
  return {index_, progress.instruction, progress.micro_batch};
}

void Device::run_step(const StepInputs& inputs) {
  at_ = {};
  context_ = {inputs.seed, inputs.step, 0};
  guard_.begin_step(arena_);
  clear_accumulators();
  int first_ticket = 0;
  for (const ListRun& run : program_.schedule) {
    context_.micro_batch = at_.micro_batch = run.micro_batch;
    run_list(lists_[run.list], inputs, first_ticket);
    first_ticket += static_cast<int>(lists_[run.list].started.size());
  }
}

void Device::run_list(const List& list, const StepInputs& inputs, int first_ticket) {
  int position = list.first_position;
  for (const Operation& operation : list.operations) {
    at_.instruction = operation.instruction;
    if (around_.failure.any()) throw Stopped{};
    guard_.before(arena_, position);
    run_operation(operation, inputs, first_ticket);
    guard_.after(arena_, position++);
  }
}

void Device::run_operation(const Operation& operation, const StepInputs& inputs, int first_ticket) {
  switch (operation.instruction->kind) {
    case Kind::compute: return operation.run(operation.call);
    case Kind::load: return run_load(operation, inputs);
    case Kind::copy: return run_copy(operation, operation.call.inputs[0].data);
    case Kind::fill: return fill(operation.call.outputs[0], operation.instruction->value);
    case Kind::collective:
      return run_collective(around_.groups[operation.membership], operation.membership.member,
                            operation.instruction->call, operation.call);
    case Kind::start: ++issued_; return patience_.wake(issued_);
    case Kind::wait: return await(finished_, first_ticket + operation.ticket + 1);
    case Kind::send:
    case Kind::receive: bug("no lanes to other meshes yet");
  }
}

void Device::await(Patience::Word& counter, int count) {
  const std::uint32_t now = patience_.wait(counter, [&](std::uint32_t value) {
    return (value & kStopped) || value >= static_cast<std::uint32_t>(count);
  });
  if (now & kStopped) throw Stopped{};
}

void Device::run_load(const Operation& operation, const StepInputs& inputs) {
  const KernelTensor& to = operation.call.outputs[0];
  const std::byte* array = inputs.batch[operation.input];
  if (array) return run_copy(operation, array + context_.micro_batch * operation.micro_batch_stride);
  store_element(to.type.dtype, to.data, inputs.scalars[operation.input]);
}

void Device::run_copy(const Operation& operation, const std::byte* from) {
  const KernelTensor& to = operation.call.outputs[0];
  if (from != to.data) copy(operation.box, from, to.data, size_of(to.type.dtype), team_);
}

void Device::clear_accumulators() {
  for (int buffer : program_.zeroed) {
    const std::int64_t offset = program_.buffers[buffer].arena_offset,
                       bytes = program_.buffers[buffer].type.bytes();
    if (bytes == 0) continue;
    team_.parallel_for(bytes, kClearGrain, [&](std::int64_t begin, std::int64_t end) {
      std::fill(arena_ + offset + begin, arena_ + offset + end, std::byte{0});
    });
  }
}

void Device::communicate_all() {
  communicating_ = {};
  int first_ticket = 0;
  for (const ListRun& run : program_.schedule) {
    communicating_.micro_batch = run.micro_batch;
    communicate_list(lists_[run.list], first_ticket);
    first_ticket += static_cast<int>(lists_[run.list].started.size());
  }
}

void Device::communicate_list(const List& list, int first_ticket) {
  for (int ticket = 0; ticket < static_cast<int>(list.started.size()); ++ticket) {
    const Operation& operation = list.operations[list.started[ticket]];
    communicating_.instruction = operation.instruction;
    await(issued_, first_ticket + ticket + 1);
    const Membership& place = operation.membership;
    run_collective(around_.communication_groups[place], place.member, operation.instruction->call,
                   operation.call);
    ++finished_;
    patience_.wake(finished_);
  }
}

}  // namespace alpa
