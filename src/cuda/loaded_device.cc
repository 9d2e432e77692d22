// src/cuda/loaded_device.cc — loads the program of one logical device as kernels ready to be queued
#include "loaded_device.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "alpa/base/error.h"
#include "compile_kernel.h"
#include "kernels/cuda/clear.h"
#include "kernels/cuda/copy.h"
#include "kernels/cuda/publish.h"
#include "kernels/cuda/step_numbers.h"
#include "kernels/plan/strided_copy_plan.h"
#include "loads.h"
#include "placement.h"
#include "ranges.h"
#include "src/base/thread_team.h"
#include "src/ir/input.h"
#include "src/lower/kernel_call.h"
#include "src/lower/side_by_side.h"
#include "status.h"
#include "watch.h"

namespace alpa::cuda {
namespace {

using Kind = lower::Instruction::Kind;

/// Assumed begin of an arena before it is allocated: not null, but as aligned.
constexpr std::int64_t kArenaBegin = 256;

/// The part of the operand at the result's position in the whole tensor.
Launch load_copy(const KernelCall& call) {
  const KernelTensor &from = call.inputs[0], &to = call.outputs[0];
  const int rank = to.type.rank();
  const Shape x_stride = kernels::dense_strides(from.type.shape),
              y_stride = kernels::dense_strides(to.type.shape);
  std::int64_t begin = 0;
  for (int d = 0; d < rank; ++d) begin += (to.offset[d] - from.offset[d]) * x_stride[d];
  CopyLaunch copy;
  require(plan_copy(copy, static_cast<int>(size_of(to.type.dtype)), rank, to.type.shape.data(),
                    x_stride.data(), y_stride.data(), begin),
          "copy of {}: the kernel takes at most {} dimensions", to_string(to.type), kMaxDims);
  return [copy](const KernelCall& ready, Stream stream) {
    if (ready.inputs[0].data != ready.outputs[0].data)
      check_queued(run_copy(copy, ready.inputs[0].data, ready.outputs[0].data, stream), "run_copy");
  };
}

Launch load_fill(double value) {
  return [value](const KernelCall& call, Stream stream) {
    const KernelTensor& y = call.outputs[0];
    check_queued(run_fill(y.data, y.type.dtype, y.type.elements(), value, stream), "run_fill");
  };
}

bool runs_overlapped(const lower::DeviceProgram& device) {
  for (const lower::InstructionList& list : device.lists)
    for (const lower::Instruction& instruction : list.instructions)
      if (instruction.overlapped) return true;
  return false;
}

}  // namespace

LoadedDevice::LoadedDevice(const spmd::SpmdProgram& program, lower::DeviceProgram device,
                           const Gpu& card, std::vector<lower::Reported> published)
    : program_(program),
      device_(std::move(device)),
      card_(card),
      staging_(lower::staging_layout(device_, program)),
      staged_(staged_buffers(device_, program, staging_)),
      published_(std::move(published)),
      metric_(direct_metrics(device_, program, published_)),
      compute_(make_stream()),
      communication_(make_stream(Priority::high)),
      overlap_stream_(runs_overlapped(device_) ? make_stream(Priority::low) : nullptr),
      compute_done_(make_event()),
      communication_done_(make_event()),
      overlap_begins_(make_event()),
      overlap_done_(make_event()),
      placed_(device_.lists.size(), -1) {
  compile_programs();
  for (int list = 0; list < static_cast<int>(device_.lists.size()); ++list) {
    lists_.push_back(load_list(device_.lists[list].instructions));
    counters_.push_back(count(list));
  }
  const std::string name = fmt::format("device {} ", device_.device);
  name_stream(compute(), name + "compute");
  name_stream(communication(), name + "communication");
  if (overlap_stream_) name_stream(overlap_stream_.get(), name + "updates");
}

LoadedDevice::Counter LoadedDevice::count(int list) const {
  Counter counter;
  for (const lower::ListRun& run : device_.schedule) {
    if (run.list != list) continue;
    if (counter.runs++ == 0) counter.first = run.micro_batch;
    invariant(run.micro_batch == counter.first + counter.runs - 1,
              "device {}: run {} of list \"{}\" is for micro-batch {}, the first one was for {}",
              device_.device, counter.runs, device_.lists[list].name, run.micro_batch,
              counter.first);
  }
  for (const lower::Instruction& instruction : device_.lists[list].instructions)
    for (const auto* buffers : {&instruction.inputs, &instruction.outputs})
      for (const int buffer : *buffers)
        counter.slots =
            std::lcm(counter.slots, device_.buffers[lower::memory_of(device_, buffer)].slots);
  return counter;
}

std::vector<Operation> LoadedDevice::load_list(const std::vector<lower::Instruction>& list) {
  std::vector<Operation> operations;
  for (const lower::Instruction& instruction : list) try {
      card_.node = Stopwatch();
      operations.push_back(load(instruction, card_));
    } catch (const Error& error) {
      fail("{}: {}", to_string(runtime::StepPlace{0, &instruction}, device_, program_),
           error.what());
    }
  return operations;
}

/// Loading compiles elementwise programs one by one; so they are compiled before, all at once.
void LoadedDevice::compile_programs() {
  std::vector<std::string> sources;
  Gpu card = card_;
  card.dnn = nullptr, card.sources = &sources;
  for (const lower::InstructionList& list : device_.lists)
    for (const lower::Instruction& instruction : list.instructions) try {
        if (instruction.kind == Kind::compute) load(instruction, card);
      } catch (const Error&) {
        // loading will say where
      }
  compile_kernels(std::move(sources), card.architecture);
}

Operation LoadedDevice::load(const lower::Instruction& instruction, const Gpu& card) {
  Operation operation;
  operation.instruction = &instruction;
  operation.call = lower::tensors_of(device_, instruction);
  switch (instruction.kind) {
    case Kind::compute: {
      const Node& node = program_.graph.nodes[instruction.node];
      Load* const load_kernel = find_kernel(*node.op);
      require(load_kernel != nullptr, "operator {} has no CUDA kernel", node.op->name);
      operation.call.attributes = &node.attributes;
      place_side_by_side(operation);
      operation.launch = load_kernel(*node.op, operation.call, card);
      break;
    }
    case Kind::load: {
      const int input = lower::loaded_input(program_, instruction);
      operation.staged = staging_.of_input[input];
      operation.sliced = program_.graph.inputs[input].kind == InputKind::batch;
      break;
    }
    case Kind::copy: operation.launch = load_copy(operation.call); break;
    case Kind::fill: operation.launch = load_fill(instruction.value); break;
    case Kind::start:
      operation.done = make_event();
      communicates_ = true;
      break;
    case Kind::collective:
    case Kind::wait:
    case Kind::send:
    case Kind::receive: break;
  }
  return operation;
}

/// Tells a kernel how far apart its tensors lie, before the arena is there.
void LoadedDevice::place_side_by_side(Operation& operation) const {
  const lower::Instruction& instruction = *operation.instruction;
  if (!lower::lie_side_by_side(device_, program_.graph, instruction)) return;
  const auto place = [&](KernelTensor& tensor, int buffer) {
    std::byte* const somewhere = nullptr;
    if (staged_[buffer] < 0 && metric_[buffer] < 0)
      tensor.data = address(somewhere + kArenaBegin, buffer);
  };
  for (std::size_t i = 0; i < instruction.inputs.size(); ++i)
    place(operation.call.inputs[i], instruction.inputs[i]);
  for (std::size_t o = 0; o < instruction.outputs.size(); ++o)
    place(operation.call.outputs[o], instruction.outputs[o]);
}

std::byte* LoadedDevice::address(std::byte* arena, int buffer) const {
  const std::int64_t offset = device_.buffers[buffer].arena_offset;
  return offset >= 0 ? arena + offset : nullptr;
}

void LoadedDevice::place(std::byte* arena, int slot, std::byte* metrics) {
  arena_ = arena;
  metrics_ = metrics;
  slot_ = address(arena, device_.staging) + slot * staging_.bytes;
  std::fill(placed_.begin(), placed_.end(), -1);
}

void LoadedDevice::place_list(const lower::ListRun& run) {
  run_ = run;
  const int slot = run.micro_batch % slots(run.list);
  if (std::exchange(placed_[run.list], slot) == slot) return;
  for (Operation& operation : lists_[run.list]) {
    const lower::Instruction& instruction = *operation.instruction;
    KernelCall& call = operation.call;
    call.step = reinterpret_cast<const StepContext*>(context_of(run.list));
    for (std::size_t i = 0; i < call.inputs.size(); ++i)
      call.inputs[i].data = placed_address(instruction.inputs[i], run.micro_batch);
    for (std::size_t i = 0; i < call.outputs.size(); ++i)
      call.outputs[i].data = placed_address(instruction.outputs[i], run.micro_batch);
    if (instruction.workspace >= 0)
      call.workspace = placed_address(instruction.workspace, run.micro_batch);
  }
}

std::byte* LoadedDevice::placed_address(int buffer, int micro_batch) const {
  if (metric_[buffer] >= 0) return metrics_ + metric_[buffer] * kMetricBytes;
  if (staged_[buffer] >= 0) return slot_ + staged_[buffer];
  const std::int64_t offset = device_.buffers[buffer].arena_offset_of(micro_batch);
  return offset >= 0 ? arena_ + offset : nullptr;
}

void LoadedDevice::fork(Stream origin, cudaEvent_t event) const {
  const auto wait = [&](Stream stream) {
    check(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
  };
  if (compute() != origin) wait(compute());
  if (communicates()) wait(communication());
  if (overlap_stream_) wait(overlap_stream_.get());
}

void LoadedDevice::join(Stream origin) const {
  if (compute() != origin) order(compute(), compute_done_.get(), origin);
  if (communicates()) order(communication(), communication_done_.get(), origin);
  if (overlap_stream_) order(overlap_stream_.get(), overlap_done_.get(), origin);
}

bool LoadedDevice::is_done() const noexcept {
  for (const Stream stream : {compute(), communication(), overlap_stream_.get()})
    if (stream != nullptr && cudaStreamQuery(stream) == cudaErrorNotReady) return false;
  return true;
}

void LoadedDevice::queue_mark(int list, int at, Stream stream) const {
  if (mark_ != nullptr)
    check_queued(run_mark(reinterpret_cast<const StepNumbers*>(context_of(list)),
                          Watch::place(list, at), mark_, stream),
                 "run_mark");
}

void LoadedDevice::queue_last_mark() const {
  if (mark_ != nullptr) check_queued(run_mark(nullptr, Watch::kOver, mark_, compute()), "run_mark");
}

void LoadedDevice::queue_clearing() const {
  std::vector<ClearedBytes> cleared;
  for (int buffer : device_.zeroed)
    if (const std::int64_t bytes = device_.buffers[buffer].type.bytes(); bytes > 0)
      cleared.push_back({address(arena_, buffer), bytes});
  check_queued(run_clear(cleared.data(), static_cast<int>(cleared.size()), compute()), "run_clear");
}

/// The staging buffer begins with the contexts of the lists.
std::byte* LoadedDevice::context_of(int list) const { return slot_ + list * sizeof(StepContext); }

void LoadedDevice::queue(const Operation& operation) const {
  if (operation.instruction->kind == Kind::load) return queue_load(operation);
  if (operation.instruction->overlapped) return queue_overlapped(operation);
  operation.launch(operation.call, compute());
}

void LoadedDevice::queue_overlapped(const Operation& operation) const {
  const Stream stream = overlap_stream_.get();
  const int at = position_of(operation, run_.list);
  order(compute(), overlap_begins_.get(), stream);
  times_.begin_beside(run_, at, stream);
  operation.launch(operation.call, stream);
  times_.end_beside(run_, at, stream);
}

void LoadedDevice::queue_next(int list) const {
  if (counters_[list].runs > 1)
    check_queued(run_next_micro_batch(reinterpret_cast<StepNumbers*>(context_of(list)), compute()),
                 "run_next_micro_batch");
}

void LoadedDevice::queue_metrics() const {
  std::vector<PublishedElement> published;
  for (const lower::Reported& reported : published_)
    if (metric_[reported.buffer] < 0)
      published.push_back({placed_address(reported.buffer, 0),
                           metrics_ + reported.metric * kMetricBytes,
                           device_.buffers[reported.buffer].type.bytes()});
  check_queued(run_publish(published.data(), static_cast<int>(published.size()), compute()),
               "run_publish");
}

void LoadedDevice::blame(const Operation& operation, int micro_batch) const {
  const runtime::StepPlace place{0, operation.instruction, micro_batch};
  blame_on(to_string(place, device_, program_));
}

void LoadedDevice::queue_load(const Operation& operation) const {
  const KernelTensor& to = operation.call.outputs[0];
  const std::byte* const from = slot_ + operation.staged;
  const std::int64_t bytes = to.type.bytes();
  if (bytes == 0 || to.data == from) return;
  if (operation.sliced)
    check_queued(run_load_part(reinterpret_cast<const StepNumbers*>(operation.call.step), from,
                               bytes, to.data, compute()),
                 "run_load_part");
  else
    check(cudaMemcpyAsync(to.data, from, bytes, cudaMemcpyDeviceToDevice, compute()),
          "cudaMemcpyAsync");
}

}  // namespace alpa::cuda
