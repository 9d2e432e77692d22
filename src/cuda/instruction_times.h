#pragma once
/// Times of the instructions of a queued step, by events on the streams that they are queued on:
/// `ExecutorOptions::record_times`. A device's times belong to the thread that queues its work.
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "handles.h"
#include "src/runtime/step_times.h"

namespace alpa::cuda {

/// Relates the events of a card to the host's clock, which all cards and processes of a host share.
class CardClock {
 public:
  /// Notes when an event on `stream` of the current card is reached. Nothing is under way there, so
  /// it waits some microseconds.
  void set(cudaStream_t stream);
  /// Nanoseconds by the host's clock at which the event was reached, which is over.
  std::int64_t at(cudaEvent_t event) const;

 private:
  EventHandle start_;
  std::int64_t nanoseconds_ = 0;  ///< of `start_`
};

class InstructionTimes {
 public:
  /// Notes nothing.
  InstructionTimes() = default;
  /// Makes events of the current card for all that a step of `program` runs. Both outlive this.
  InstructionTimes(const lower::DeviceProgram& program, cudaStream_t compute);

  void begin_step() { open_ = nullptr; }
  /// The device comes to an instruction, perhaps again because it had to wait; and past it.
  void begin(const lower::ListRun& run, int at);
  void end(const lower::ListRun& run, int at);
  /// Begin and end of what an instruction queues on another stream: a started collective, a
  /// message, an overlapped update.
  void begin_beside(const lower::ListRun& run, int at, cudaStream_t stream) const;
  void end_beside(const lower::ListRun& run, int at, cudaStream_t stream) const;

  /// Times of the last step, which must have ended.
  runtime::DeviceTimes read(const CardClock& clock) const;

 private:
  struct Bracket {
    EventHandle begin, end;
  };

  const lower::DeviceProgram* program_ = nullptr;
  cudaStream_t compute_ = nullptr;
  std::map<std::pair<int, int>, std::size_t> first_;  ///< by list and micro-batch: of the run
  std::vector<Bracket> own_, beside_;                 ///< of all runs, one after the other
  cudaEvent_t open_ = nullptr;                        ///< of the instruction that the device is at
};

}  // namespace alpa::cuda
