// src/report/step_trace.cc — the timeline of a step as a Chrome trace and in words
#include "step_trace.h"

#include <algorithm>
#include <map>

#include "alpa/base/text.h"
#include "pipeline_forecast.h"
#include "src/base/json.h"

namespace alpa {
namespace {

using Json = nlohmann::ordered_json;

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
