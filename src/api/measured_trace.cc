// src/api/measured_trace.cc — the trace of the last step of an executor
#include "measured_trace.h"

#include <algorithm>
#include <limits>

#include "alpa/base/error.h"
#include "src/report/pipeline_forecast.h"
#include "src/runtime/executor.h"
#include "src/spmd/program.h"

namespace alpa {
namespace {

using Kind = lower::Instruction::Kind;

TraceLane lane_of(Kind kind) {
  switch (kind) {
    case Kind::collective:
    case Kind::start: return TraceLane::communication;
    case Kind::send:
    case Kind::receive: return TraceLane::transfer;
    case Kind::wait: return TraceLane::waiting;
    default: return TraceLane::compute;
  }
}

/// Name of the thread or stream on which an instruction runs beside the others.
std::string beside_of(const lower::Instruction& instruction) {
  const lower::Message& message = instruction.message;
  switch (instruction.kind) {
    case Kind::send: return fmt::format("to device {}, lane {}", message.peer, message.lane);
    case Kind::receive: return fmt::format("from device {}, lane {}", message.peer, message.lane);
    case Kind::start: return "collectives";
    default: return "updates";
  }
}

double seconds_between(std::int64_t begin, std::int64_t end) {
  return static_cast<double>(end - begin) * 1e-9;
}

class Reader {
 public:
  Reader(const runtime::Executor& executor, std::vector<runtime::DeviceTimes> times)
      : program_(executor.program()), executor_(executor), times_(std::move(times)) {
    for (const runtime::DeviceTimes& device : times_)
      if (!device.own.empty()) {
        first_ = std::min(first_, device.own.front().begin);
        last_ = std::max(last_, device.own.back().end);
        for (const auto& timed : device.beside) last_ = std::max(last_, timed.end);
      }
  }

  bool has_run() const { return last_ > first_; }

  double seconds() const { return seconds_between(first_, last_); }

  std::vector<DeviceTrace> devices() const {
    std::vector<DeviceTrace> traces;
    for (std::size_t d = 0; d < times_.size(); ++d) traces.push_back(device(static_cast<int>(d)));
    return traces;
  }

 private:
  TraceSpan span_of(const runtime::TimedInstruction& timed) const {
    return {program_.graph.nodes[timed.instruction->node].name, lane_of(timed.instruction->kind),
            timed.micro_batch, seconds_between(first_, timed.begin),
            seconds_between(first_, timed.end)};
  }

  DeviceTrace device(int index) const {
    const lower::DeviceProgram& device = executor_.device_program(index);
    DeviceTrace trace;
    trace.device = device.device;
    trace.stage = device.mesh;
    trace.free_before = times_[index].free_before, trace.free_behind = times_[index].free_behind;
    for (const runtime::TimedInstruction& timed : times_[index].own) {
      trace.spans.push_back(span_of(timed));
      if (trace.spans.back().lane != TraceLane::waiting)
        trace.busy += trace.spans.back().end - trace.spans.back().begin;
    }
    for (const runtime::TimedInstruction& timed : times_[index].beside) {
      trace.beside.push_back(span_of(timed));
      trace.beside.back().beside = beside_of(*timed.instruction);
    }
    std::size_t next = 0;
    for (const lower::ListRun& run : device.schedule) {
      const lower::InstructionList& list = device.lists[run.list];
      if (list.instructions.empty()) continue;
      const TraceSpan& first = trace.spans.at(next);
      next += list.instructions.size();
      trace.runs.push_back({list.name, TraceLane::compute, run.micro_batch, first.begin,
                            trace.spans.at(next - 1).end});
    }
    return trace;
  }

  const spmd::SpmdProgram& program_;
  const runtime::Executor& executor_;
  const std::vector<runtime::DeviceTimes> times_;
  std::int64_t first_ = std::numeric_limits<std::int64_t>::max(), last_ = 0;
};

}  // namespace

StepTrace trace_of(const Plan& plan, const runtime::Executor& executor) {
  std::vector<runtime::DeviceTimes> times = executor.times();
  require(!times.empty(),
          "no times of instructions were recorded; set ExecutorOptions::record_times");
  const Reader reader(executor, std::move(times));
  require(reader.has_run(), "trace: no step has run yet; run one first");
  return {reader.devices(), reader.seconds(), forecast(plan)};
}

std::optional<StepTrace> trace_if_recorded(const Plan& plan, const runtime::Executor& executor) {
  const Reader reader(executor, executor.times());
  if (!reader.has_run()) return std::nullopt;
  return StepTrace{reader.devices(), reader.seconds(), forecast(plan)};
}

}  // namespace alpa
