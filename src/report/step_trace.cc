// src/report/step_trace.cc — the measured and the predicted timeline of a step
#include "step_trace.h"

#include <algorithm>
#include <limits>
#include <map>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "pipeline_forecast.h"
#include "src/base/json.h"
#include "src/ir/op_def.h"
#include "src/spmd/program.h"

namespace alpa {
namespace {

using Json = nlohmann::ordered_json;
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

/// Threads of a device's process in the trace.
enum Thread { kPredicted, kRuns, kCompute, kCommunication, kTransfer, kWaiting, kBeside };
constexpr const char* kThreads[] = {"predicted",     "measured", "compute",
                                    "communication", "transfer", "waiting"};

Thread thread_of(TraceLane lane) { return static_cast<Thread>(kCompute + static_cast<int>(lane)); }

Json event(const std::string& name, int device, int thread, int stage, int micro_batch,
           double begin, double end) {
  return {{"name", name},
          {"ph", "X"},
          {"pid", device},
          {"tid", thread},
          {"ts", begin * 1e6},
          {"dur", (end - begin) * 1e6},
          {"args", {{"stage", stage}, {"micro_batch", micro_batch}}}};
}

Json named(const char* what, int device, int thread, const std::string& name) {
  return {
      {"name", what}, {"ph", "M"}, {"pid", device}, {"tid", thread}, {"args", {{"name", name}}}};
}

Json label_of(const DeviceTrace& device) {
  const std::string text = fmt::format("{} bytes free before kernels were loaded, {} behind",
                                       device.free_before, device.free_behind);
  return {{"name", "process_labels"},
          {"ph", "M"},
          {"pid", device.device},
          {"args", {{"labels", text}}}};
}

int parts_of(const StepTrace& trace) { return static_cast<int>(trace.predicted.meshes.size()); }

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

StepTrace predicted_trace_of(const Plan& plan) {
  StepTrace trace{.predicted = forecast(plan)};
  for (std::size_t mesh = 0; mesh < trace.predicted.meshes.size(); ++mesh)
    for (int device : plan.stages[mesh].plan.mesh.devices()) {
      DeviceTrace& of = trace.devices.emplace_back();
      of.device = device;
      of.stage = static_cast<int>(mesh);
    }
  return trace;
}

std::string chrome_trace(const StepTrace& trace) {
  Json events = Json::array();
  for (const DeviceTrace& device : trace.devices) {
    const int id = device.device, stage = device.stage, parts = parts_of(trace);
    events.push_back(named("process_name", id, 0, fmt::format("device {}, stage {}", id, stage)));
    if (device.free_before > 0) events.push_back(label_of(device));
    for (int thread = 0; thread < static_cast<int>(std::size(kThreads)); ++thread)
      events.push_back(named("thread_name", id, thread, kThreads[thread]));
    for (const pipeline::TimedRun& timed : trace.predicted.meshes[stage % parts])
      events.push_back(event(to_string(timed.run), id, kPredicted, stage + timed.run.chunk * parts,
                             timed.run.micro_batch, timed.begin, timed.end));
    for (const TraceSpan& run : device.runs)
      events.push_back(event(fmt::format("{} {}", run.name, run.micro_batch), id, kRuns, stage,
                             run.micro_batch, run.begin, run.end));
    for (const TraceSpan& span : device.spans)
      events.push_back(event(span.name, id, thread_of(span.lane), stage, span.micro_batch,
                             span.begin, span.end));
    std::map<std::string, int> beside;
    for (const TraceSpan& span : device.beside) beside[span.beside];
    int last = kBeside;
    for (auto& [what, thread] : beside)
      events.push_back(named("thread_name", id, thread = last++, "beside: " + what));
    for (const TraceSpan& span : device.beside)
      events.push_back(
          event(span.name, id, beside[span.beside], stage, span.micro_batch, span.begin, span.end));
  }
  const Json file = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return json_text(file, 0) + "\n";
}

std::string to_string(const StepTrace& trace) {
  const int parts = parts_of(trace);
  std::vector<double> busy(parts, 0), devices(parts, 0), predicted(parts, 0);
  for (const DeviceTrace& device : trace.devices) {
    busy[device.stage % parts] += device.busy;
    ++devices[device.stage % parts];
  }
  double all_busy = 0;
  int slowest = 0;
  for (int part = 0; part < parts; ++part) {
    all_busy += busy[part];
    busy[part] /= devices[part];
    if (busy[part] > busy[slowest]) slowest = part;
    for (const pipeline::TimedRun& timed : trace.predicted.meshes[part])
      predicted[part] += timed.end - timed.begin;
  }
  const double waiting = 1 - all_busy / (trace.seconds * static_cast<double>(trace.devices.size()));
  return fmt::format(
      "{} measured, {} predicted; devices wait {:.0f} % of it, {:.0f} % predicted\n"
      "slowest     stage {}: busy {}, {} predicted",
      seconds_text(trace.seconds), seconds_text(trace.predicted.clocks), 100 * waiting,
      100 * trace.predicted.bubble(), slowest, seconds_text(busy[slowest]),
      seconds_text(predicted[slowest]));
}

}  // namespace alpa
