// src/runtime/device.cc — the interpreter of device programs
#include "device.h"

#include <algorithm>
#include <map>
#include <utility>

#include "alpa/base/error.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"
#include "src/lower/kernel_call.h"
#include "src/lower/staging.h"
#include "src/tensor/element.h"

namespace alpa::runtime {
namespace {

using Kind = lower::Instruction::Kind;

/// Bytes below which clearing memory is not worth sharing among threads.
constexpr std::int64_t kClearGrain = 128 * 1024;

/// Thrown on a device that stops because another one failed.
struct Stopped {};

comm::Call call_of(const lower::CollectiveCall& call, const KernelCall& tensors) {
  return {call.kind, tensors.inputs, tensors.outputs, call.combiner, call.dims, call.from_dim};
}

LaneSide side_of(const lower::Instruction& message) {
  return message.kind == Kind::send ? LaneSide::sender : LaneSide::receiver;
}

std::int64_t bytes_of(const lower::Message& message, DType dtype) {
  std::int64_t bytes = static_cast<std::int64_t>(size_of(dtype));
  for (const std::int64_t extent : message.extent) bytes *= extent;
  return bytes;
}

/// Scratch counts as used whole, though libraries ask for more than they write. Between
/// steps nothing lives there.
__attribute__((no_sanitize_address)) void count_as_written(std::byte* byte) {
  *byte = std::byte{0};
}

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

void Failure::forget() noexcept {
  record_ = {};
  failed_ = claimed_ = false;
}

Device::Device(lower::DeviceProgram program, Surroundings surroundings, int index, int num_threads,
               int running_threads)
    : program_(std::move(program)),
      around_(surroundings),
      index_(index),
      team_(num_threads, running_threads),
      guard_(program_),
      spin_wait_(2 * surroundings.devices) {
  for (int l = 0; l < static_cast<int>(program_.lists.size()); ++l) lists_.push_back(load_list(l));
  load_messages();
}

void Device::record_times() {
  std::size_t own = 0, started = 0;
  for (const lower::ListRun& run : program_.schedule) {
    own += lists_[run.list].operations.size();
    started += lists_[run.list].started.size();
  }
  times_.reserve(own);
  communication_times_.reserve(started);
}

bool Device::communicates() const {
  return std::any_of(lists_.begin(), lists_.end(),
                     [](const List& list) { return !list.started.empty(); });
}

Device::List Device::load_list(int l) {
  List list;
  list.first_position = alpa::lower::first_position(program_, l);
  const std::vector<lower::Instruction>& instructions = program_.lists[l].instructions;
  for (int i = 0; i < static_cast<int>(instructions.size()); ++i) {
    int ticket = -1;
    if (instructions[i].kind == Kind::start) {
      ticket = static_cast<int>(list.started.size());
      list.started.push_back(i);
    }
    if (instructions[i].kind == Kind::wait && instructions[i].awaits_list < 0 &&
        instructions[i].awaits < i)
      ticket = list.operations[instructions[i].awaits].ticket;
    list.operations.push_back(load_operation(instructions[i], ticket));
    const auto has_slots = [&](int buffer) { return program_.buffers[buffer].slots > 1; };
    if (std::any_of(instructions[i].inputs.begin(), instructions[i].inputs.end(), has_slots) ||
        std::any_of(instructions[i].outputs.begin(), instructions[i].outputs.end(), has_slots))
      list.slotted.push_back(i);
  }
  return list;
}

/// Numbers the messages of a step in their lanes, and finds what waits wait for.
void Device::load_messages() {
  std::map<std::pair<Lane*, Kind>, int> next;  // a lane may lead from a device to itself
  for (const lower::ListRun& run : program_.schedule)
    for (Operation& operation : lists_[run.list].operations) {
      if (!operation.lane) continue;
      operation.numbers.push_back(next[{operation.lane, operation.instruction->kind}]++);
      operation.lane->add_message(side_of(*operation.instruction));
    }
  for (List& list : lists_)
    for (Operation& operation : list.operations) {
      const lower::Instruction& wait = *operation.instruction;
      if (wait.kind != Kind::wait) continue;
      const List& there = wait.awaits_list < 0 ? list : lists_[wait.awaits_list];
      if (there.operations[wait.awaits].lane) operation.awaited = &there.operations[wait.awaits];
    }
}

Device::Operation Device::load_operation(const lower::Instruction& instruction, int ticket) {
  Operation operation;
  operation.instruction = &instruction;
  operation.ticket = ticket;
  if (instruction.kind == Kind::compute) {
    const KernelDef& kernel = *around_.program.graph.nodes[instruction.node].op->cpu;
    operation.call = lower::kernel_call(program_, around_.program, instruction, team_.size());
    operation.call.team = &team_;
    operation.call.step = &context_;
    operation.run = kernel.run;
    if (kernel.prepare) operation.call.prepared = kernel.prepare(operation.call);
    check_scratch(instruction, kernel, operation.call);
    return operation;
  }
  operation.call = lower::tensors_of(program_, instruction);
  if (instruction.kind == Kind::collective)
    operation.membership = around_.groups.join(instruction.call.group, program_.device);
  if (instruction.kind == Kind::start)
    operation.membership =
        around_.communication_groups.join(instruction.call.group, program_.device);
  if (instruction.kind == Kind::collective || instruction.kind == Kind::start) {
    Groups& groups =
        instruction.kind == Kind::start ? around_.communication_groups : around_.groups;
    groups[operation.membership].reserve(operation.membership.member,
                                         call_of(instruction.call, operation.call));
  }
  const lower::Message& message = instruction.message;
  if (instruction.kind == Kind::send)
    operation.lane = &around_.lanes.between(program_.device, message.peer, message.lane);
  if (instruction.kind == Kind::receive)
    operation.lane = &around_.lanes.between(message.peer, program_.device, message.lane);
  if (operation.lane) {
    const bool sends = instruction.kind == Kind::send;
    const KernelTensor& tensor = sends ? operation.call.inputs[0] : operation.call.outputs[0];
    operation.slots =
        program_.buffers[sends ? instruction.inputs[0] : instruction.outputs[0]].slots;
    operation.room =
        operation.lane->reserve({&instruction.message, &tensor, nullptr}, operation.slots);
  }
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

/// Throws Bug if the kernel needs more scratch than planned, such as for a team of another size.
void Device::check_scratch(const lower::Instruction& instruction, const KernelDef& kernel,
                           const KernelCall& call) {
  const std::int64_t needed = kernel.workspace_bytes ? kernel.workspace_bytes(call) : 0;
  const std::int64_t planned =
      instruction.workspace >= 0 ? program_.buffers[instruction.workspace].type.bytes() : 0;
  invariant(needed <= planned, "{}: {} bytes of scratch for {} threads, but {} were planned",
            to_string(place_of({&instruction, 0}), program_, around_.program), needed, call.threads,
            planned);
}

/// The device's slice of a shared array, or of a batch array, which holds all micro-batches one
/// after the other along dimension 0.
void Device::load_input(Operation& operation) {
  const Graph& graph = around_.program.graph;
  const int value = graph.nodes[operation.instruction->node].results[0];
  operation.input = lower::loaded_input(around_.program, *operation.instruction);
  const InputKind kind = graph.inputs[operation.input].kind;
  if (kind == InputKind::scalar) return;
  const KernelTensor& to = operation.call.outputs[0];
  operation.box = BoxCopy::make(to.global_shape, to.offset, to.type.shape,
                                Shape(to.offset.size(), 0), to.type.shape);
  if (kind == InputKind::batch) operation.micro_batch_stride = graph.type(value).bytes();
}

void Device::place(std::byte* arena) {
  if (arena_ == arena) return;
  arena_ = arena;
  for (List& list : lists_)
    for (Operation& operation : list.operations) {
      point(operation, 0);
      const int workspace = operation.instruction->workspace;
      if (workspace < 0) continue;
      operation.call.workspace = arena_ + program_.buffers[workspace].arena_offset;
      count_as_written(operation.call.workspace + program_.buffers[workspace].type.bytes() - 1);
    }
}

/// Points the operation's calls to the tensors of the micro-batch in the arena.
void Device::point(Operation& operation, int micro_batch) {
  const auto point_all = [&](std::vector<KernelTensor>& tensors, const std::vector<int>& buffers) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::int64_t offset = program_.buffers[buffers[i]].arena_offset_of(micro_batch);
      tensors[i].data = offset >= 0 ? arena_ + offset : nullptr;
    }
  };
  point_all(operation.call.inputs, operation.instruction->inputs);
  point_all(operation.call.outputs, operation.instruction->outputs);
}

void Device::prepare_step(const StepInputs& inputs) {
  inputs_ = &inputs;
  context_ = {inputs.seed, inputs.step, 0};
  state_ = State::running;
  run_ = -1;
  under_way_ = false;
  at_ = {};
  issued_.store(0, std::memory_order_relaxed);
  finished_.store(0, std::memory_order_relaxed);
  messages_ = {};
  times_.begin_step();
  communication_times_.begin_step();
  position_.store(0, std::memory_order_relaxed);
  if (!around_.lanes.any()) return;
  for (List& list : lists_)
    for (Operation& operation : list.operations) operation.runs = 0;
}

void Device::stop() {
  for (auto* counter : {&issued_, &finished_}) {
    counter->fetch_or(kStopped);
    spin_wait_.wake(*counter);
  }
}

// ---- one step

bool Device::advance() {
  moved_ = false;
  if (!guarded(at_, [&] { advance_step(); })) state_ = State::failed;
  if (over()) position_.store(StepPosition::kOver, std::memory_order_relaxed);
  return moved_;
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

void Device::advance_step() {
  if (run_ < 0) begin_step();
  for (; run_ < std::ssize(program_.schedule); begin_run(run_ + 1))
    if (!advance_list(lists_[program_.schedule[run_].list])) return;
  state_ = State::over;
}

void Device::begin_step() {
  moved_ = true;
  guard_.begin_step(arena_);
  clear_accumulators();
  first_ticket_ = 0;
  begin_run(0);
}

void Device::begin_run(int run) {
  if (run > 0)
    first_ticket_ += static_cast<int>(lists_[program_.schedule[run - 1].list].started.size());
  run_ = run;
  next_ = 0;
  if (run == std::ssize(program_.schedule)) return;
  context_.micro_batch = at_.micro_batch = program_.schedule[run].micro_batch;
  List& list = lists_[program_.schedule[run].list];
  for (int i : list.slotted) point(list.operations[i], at_.micro_batch);
}

/// True: the list has ended.
bool Device::advance_list(List& list) {
  for (; next_ < list.operations.size(); ++next_) {
    Operation& operation = list.operations[next_];
    const int position = list.first_position + static_cast<int>(next_);
    if (!under_way_) begin(operation, position);
    if (!proceed(operation)) return false;
    end(position);
  }
  return true;
}

void Device::begin(Operation& operation, int position) {
  under_way_ = moved_ = true;
  at_.instruction = operation.instruction;
  position_.store(StepPosition::code(run_, next_), std::memory_order_relaxed);
  if (around_.failure.any()) throw Stopped{};
  guard_.before(arena_, position, at_.micro_batch);
  times_.begin(operation.instruction, at_.micro_batch);
  start(operation);
}

void Device::end(int position) {
  under_way_ = false;
  moved_ = true;
  times_.end();
  guard_.after(arena_, position, at_.micro_batch);
}

/// Runs the part of an operation that does not wait.
void Device::start(Operation& operation) {
  switch (operation.instruction->kind) {
    case Kind::compute: return operation.run(operation.call);
    case Kind::load: return run_load(operation);
    case Kind::copy: return run_copy(operation, operation.call.inputs[0].data);
    case Kind::fill: return fill(operation.call.outputs[0], operation.instruction->value);
    case Kind::collective:
      return around_.groups[operation.membership].begin(
          operation.membership.member, call_of(operation.instruction->call, operation.call));
    case Kind::start: ++issued_; return spin_wait_.wake(issued_);
    case Kind::send:
    case Kind::receive: return hand_over(operation);
    case Kind::wait: return;
  }
}

/// True if the operation is done; false if it waits for another device or thread.
bool Device::proceed(const Operation& operation) {
  switch (operation.instruction->kind) {
    case Kind::collective:
      return around_.groups[operation.membership].proceed(operation.membership.member);
    case Kind::wait: {
      if (!operation.awaited) return reached(finished_, awaited_ticket(operation));
      const int message = awaited_message(operation);
      return message < 0 || operation.awaited->lane->done(message);
    }
    default: return true;
  }
}

void Device::wait(std::optional<std::chrono::nanoseconds> limit) {
  const bool waited = guarded(at_, [&] {
    const Operation& operation = lists_[program_.schedule[run_].list].operations[next_];
    if (operation.instruction->kind == Kind::collective)
      around_.groups[operation.membership].wait(operation.membership.member, limit);
    else if (operation.awaited)
      operation.awaited->lane->wait(awaited_message(operation), team_, limit);
    else
      await(finished_, awaited_ticket(operation), limit);
  });
  if (!waited) state_ = State::failed;
}

void Device::hand_over(Operation& operation) {
  const lower::Instruction& instruction = *operation.instruction;
  const bool sends = instruction.kind == Kind::send;
  const KernelTensor& tensor = sends ? operation.call.inputs[0] : operation.call.outputs[0];
  const int number = operation.numbers[operation.runs++];
  operation.lane->hand_over(side_of(instruction), number,
                            {&instruction.message, &tensor, tensor.data},
                            operation.room + at_.micro_batch % operation.slots, team_);
  if (sends) messages_.add_sent(1, bytes_of(instruction.message, tensor.type.dtype));
}

/// The number of the message of the run that the wait names; -1: that is before the first one.
/// Earlier messages of the lane were handed over before.
int Device::awaited_message(const Operation& wait) const {
  const int behind = wait.instruction->behind;
  const int run =
      behind == lower::Instruction::kAllRuns ? wait.awaited->runs - 1 : at_.micro_batch - behind;
  return run < 0 ? -1 : wait.awaited->numbers[run];
}

bool Device::reached(const SpinWait::Word& counter, int count) const {
  const std::uint32_t value = counter.load();
  if (value & kStopped) throw Stopped{};
  return value >= static_cast<std::uint32_t>(count);
}

void Device::await(const SpinWait::Word& counter, int count,
                   std::optional<std::chrono::nanoseconds> limit) {
  spin_wait_.wait(
      counter,
      [&](std::uint32_t value) {
        return (value & kStopped) || value >= static_cast<std::uint32_t>(count);
      },
      limit);
}

void Device::run_load(const Operation& operation) {
  const KernelTensor& to = operation.call.outputs[0];
  const std::byte* array = inputs_->batch[operation.input];
  if (array)
    return run_copy(operation, array + context_.micro_batch * operation.micro_batch_stride);
  store_element(to.type.dtype, to.data, inputs_->scalars[operation.input]);
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
  for (const lower::ListRun& run : program_.schedule) {
    communicating_.micro_batch = run.micro_batch;
    communicate_list(lists_[run.list], first_ticket);
    first_ticket += static_cast<int>(lists_[run.list].started.size());
  }
}

void Device::communicate_list(const List& list, int first_ticket) {
  for (int ticket = 0; ticket < static_cast<int>(list.started.size()); ++ticket) {
    const Operation& operation = list.operations[list.started[ticket]];
    communicating_.instruction = operation.instruction;
    const int started = first_ticket + ticket + 1;
    while (!reached(issued_, started)) await(issued_, started);
    const Membership& place = operation.membership;
    communication_times_.begin(operation.instruction, communicating_.micro_batch);
    around_.communication_groups[place].run(place.member,
                                            call_of(operation.instruction->call, operation.call));
    communication_times_.end();
    ++finished_;
    spin_wait_.wake(finished_);
  }
}

}  // namespace alpa::runtime
