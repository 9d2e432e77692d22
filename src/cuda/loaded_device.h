#pragma once
/// One logical device: its program as kernels that are ready to be queued on its two streams.
#include <vector>

#include "handles.h"
#include "instruction_times.h"
#include "kernel.h"
#include "src/lower/staging.h"
#include "src/runtime/devices.h"

namespace alpa::cuda {

/// One instruction, ready to be queued.
struct Operation {
  const lower::Instruction* instruction = nullptr;
  Launch launch;                ///< compute, copy and fill
  KernelCall call;              ///< tensors of every kind of instruction but wait
  std::int64_t staged = -1;     ///< load: offset in a step's part of the staging buffer
  bool sliced = false;          ///< load: every micro-batch has its own part
  int group = -1, member = -1;  ///< collective and start: set by the mesh's queue, as is
  int meeting = 0;              ///< how many collectives of the group came before in this list
  EventHandle done;             ///< start: it was reached; then its collective is over
};

/// Bytes apart that metrics lie in the host's memory.
inline constexpr std::int64_t kMetricBytes = 8;

class LoadedDevice {
 public:
  /// Loads every kernel on `card`. `published`: the metrics that the host reads from this device.
  /// Throws Error naming the instruction of what can't be loaded.
  LoadedDevice(const spmd::SpmdProgram& program, lower::DeviceProgram device, const Gpu& card,
               std::vector<lower::Reported> published);

  const lower::DeviceProgram& program() const { return device_; }
  const Node& node_of(const Operation& operation) const {
    return program_.graph.nodes[operation.instruction->node];
  }
  const lower::StagingLayout& staging() const { return staging_; }
  const Gpu& card() const { return card_; }
  Stream compute() const { return compute_.get(); }
  Stream communication() const { return communication_.get(); }
  /// True if the program starts collectives on the communication stream.
  bool communicates() const { return communicates_; }
  /// The stream that an operation other than a collective is queued on: overlapped updates
  /// have one of low priority.
  Stream stream_of(const Operation& operation) const {
    return operation.instruction->overlapped ? overlap_stream_.get() : compute();
  }
  /// Makes later work on all streams wait for `event`, recorded on `origin`.
  void fork(Stream origin, cudaEvent_t event) const;
  /// Makes later work on `origin` wait for all streams, which `fork` has put behind it.
  void join(Stream origin) const;
  /// True if no work is left on its streams; throws nothing.
  bool is_done() const noexcept;
  std::vector<Operation>& list(int list) { return lists_[list]; }
  int position_of(const Operation& operation, int list) const {
    return static_cast<int>(&operation - lists_[list].data());
  }
  /// The micro-batch that the list runs for first in a step; then come those that follow.
  int first_micro_batch(int list) const { return counters_[list].first; }
  /// Runs of the list so many micro-batches apart use the same memory.
  int slots(int list) const { return counters_[list].slots; }
  /// True if nothing has to be queued before a step's first list.
  bool begins_clear() const { return device_.zeroed.empty(); }

  /// Lists work in `arena` from now on, with part `slot` of the staging buffer there. `metrics`:
  /// where the device can write 8 bytes for each metric of the graph.
  void place(std::byte* arena, int slot, std::byte* metrics);
  /// Points the calls of a list to where `micro_batch` has its buffers.
  void place_list(const lower::ListRun& run);
  void place_side_by_side(Operation& operation) const;
  std::byte* address(std::byte* arena, int buffer) const;
  /// Where a micro-batch has a buffer, and the scratch of an operation, in
  /// the arena that was placed.
  std::byte* placed_address(int buffer, int micro_batch) const;

  /// Records the times of instructions from the next step on. The device's card must be current.
  void record_times() { times_ = InstructionTimes(device_, compute()); }
  InstructionTimes& times() { return times_; }

  /// Sets the word to which the device writes its progress; null: none. See Watch.
  void tell_at(std::uint64_t* mark) { mark_ = mark; }
  /// Queues telling the host that instruction `at` of a list is next, or that the step is over.
  void queue_mark(int list, int at, Stream stream) const;
  void queue_last_mark() const;

  /// Queues clearing the accumulators.
  void queue_clearing() const;
  /// Queues a load, compute, copy or fill. What depends on the micro-batch is read on the device.
  void queue(const Operation& operation) const;
  /// Queues what makes the next run of `list` that of the next micro-batch, if there is one.
  void queue_next(int list) const;
  /// Queues copying the metrics that no kernel writes straight to where they were placed.
  void queue_metrics() const;

  /// Throws the exception that is being handled again, with the operation's place in front.
  [[noreturn]] void blame(const Operation& operation, int micro_batch) const;

 private:
  /// Sequence of a list's runs in a step: first micro-batch, number of runs, copies of memory.
  struct Counter {
    int first = 0, runs = 0, slots = 1;
  };

  Counter count(int list) const;
  std::vector<Operation> load_list(const std::vector<lower::Instruction>& list);
  Operation load(const lower::Instruction& instruction, const Gpu& card);
  void compile_programs();
  std::byte* context_of(int list) const;
  void queue_load(const Operation& operation) const;
  void queue_overlapped(const Operation& operation) const;

  const spmd::SpmdProgram& program_;
  lower::DeviceProgram device_;
  Gpu card_;
  lower::StagingLayout staging_;
  std::vector<std::int64_t> staged_;  ///< per buffer, see `staged_buffers`
  std::vector<lower::Reported> published_;
  std::vector<int> metric_;  ///< per buffer, see `direct_metrics`
  StreamHandle compute_, communication_;
  StreamHandle overlap_stream_;  ///< null if nothing is overlapped
  EventHandle compute_done_, communication_done_, overlap_begins_, overlap_done_;
  bool communicates_ = false;
  std::vector<std::vector<Operation>> lists_;
  std::vector<Counter> counters_;  ///< per list
  std::vector<int> placed_;        ///< per list: the slot that its calls point to; -1: none
  lower::ListRun run_;             ///< that was placed last
  InstructionTimes times_;
  std::uint64_t* mark_ = nullptr;
  std::byte *arena_ = nullptr, *slot_ = nullptr, *metrics_ = nullptr;
};

}  // namespace alpa::cuda
