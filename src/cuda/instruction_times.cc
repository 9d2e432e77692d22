// src/cuda/instruction_times.cc — times of instructions, by events
#include "instruction_times.h"

#include <chrono>
#include <cmath>
#include <limits>

#include "status.h"

namespace alpa::cuda {
namespace {

using Kind = lower::Instruction::Kind;

std::int64_t now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void record(const EventHandle& event, cudaStream_t stream) {
  check(cudaEventRecord(event.get(), stream), "cudaEventRecord");
}

bool runs_beside(const lower::Instruction& instruction) {
  return instruction.kind == Kind::start || instruction.kind == Kind::send ||
         instruction.kind == Kind::receive || instruction.overlapped;
}

}  // namespace

/// The event lies between two readings of the host's clock. Of several tries the closest two count.
void CardClock::set(cudaStream_t stream) {
  constexpr int kTries = 8;
  std::int64_t closest = std::numeric_limits<std::int64_t>::max();
  EventHandle event = make_event(/*timed=*/true);
  if (!start_) start_ = make_event(/*timed=*/true);
  for (int i = 0; i < kTries; ++i) {
    const std::int64_t before = now();
    record(event, stream);
    check(cudaEventSynchronize(event.get()), "cudaEventSynchronize");
    const std::int64_t apart = now() - before;
    if (apart >= closest) continue;
    closest = apart;
    nanoseconds_ = before + apart / 2;
    std::swap(start_, event);
  }
}

std::int64_t CardClock::at(cudaEvent_t event) const {
  return nanoseconds_ + std::llround(seconds_between(start_.get(), event) * 1e9);
}

InstructionTimes::InstructionTimes(const lower::DeviceProgram& program, cudaStream_t compute)
    : program_(&program), compute_(compute) {
  const auto bracket = [](bool made) {
    return made ? Bracket{make_event(true), make_event(true)} : Bracket{};
  };
  for (const lower::ListRun& run : program.schedule) {
    first_[{run.list, run.micro_batch}] = own_.size();
    for (const lower::Instruction& instruction : program.lists[run.list].instructions) {
      own_.push_back(bracket(true));
      beside_.push_back(bracket(runs_beside(instruction)));
    }
  }
}

void InstructionTimes::begin(const lower::ListRun& run, int at) {
  if (program_ == nullptr) return;
  const EventHandle& event = own_[first_.at({run.list, run.micro_batch}) + at].begin;
  if (std::exchange(open_, event.get()) != event.get()) record(event, compute_);
}

void InstructionTimes::end(const lower::ListRun& run, int at) {
  if (program_ == nullptr) return;
  record(own_[first_.at({run.list, run.micro_batch}) + at].end, compute_);
  open_ = nullptr;
}

void InstructionTimes::begin_beside(const lower::ListRun& run, int at, cudaStream_t stream) const {
  if (program_ != nullptr)
    record(beside_[first_.at({run.list, run.micro_batch}) + at].begin, stream);
}

void InstructionTimes::end_beside(const lower::ListRun& run, int at, cudaStream_t stream) const {
  if (program_ != nullptr) record(beside_[first_.at({run.list, run.micro_batch}) + at].end, stream);
}

runtime::DeviceTimes InstructionTimes::read(const CardClock& clock) const {
  runtime::DeviceTimes times;
  if (program_ == nullptr) return times;
  std::size_t next = 0;
  const auto add = [&](std::vector<runtime::TimedInstruction>& to, const Bracket& bracket,
                       const lower::Instruction& instruction, int micro_batch) {
    if (bracket.begin)
      to.push_back(
          {&instruction, micro_batch, clock.at(bracket.begin.get()), clock.at(bracket.end.get())});
  };
  for (const lower::ListRun& run : program_->schedule)
    for (const lower::Instruction& instruction : program_->lists[run.list].instructions) {
      add(times.own, own_[next], instruction, run.micro_batch);
      add(times.beside, beside_[next++], instruction, run.micro_batch);
    }
  return times;
}

}  // namespace alpa::cuda
