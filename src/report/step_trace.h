#pragma once
/// Trace of a step: when each instruction ran, beside its predicted seconds.
#include <cstdint>
#include <string>
#include <vector>

#include "alpa/plan/pipeline_plan.h"
#include "src/plan/schedules/timeline.h"

namespace alpa {

/// The kinds of time of a device.
enum class TraceLane : std::uint8_t { compute, communication, transfer, waiting };

/// Something that a device did; seconds since the step began.
struct TraceSpan {
  std::string name;  ///< of a node, or of a list: "forward"
  TraceLane lane = TraceLane::compute;
  int micro_batch = 0;
  double begin = 0, end = 0;
  std::string beside = {};  ///< what runs beside the device's thread; "" on that thread itself
};

struct DeviceTrace {
  int device = 0;
  int stage = 0;                  ///< the first of its stages
  std::vector<TraceSpan> runs;    ///< of instruction lists
  std::vector<TraceSpan> spans;   ///< of instructions on the device's thread or compute stream
  std::vector<TraceSpan> beside;  ///< of what they start on other threads or streams
  double busy = 0;                ///< seconds in which its thread did not wait
  std::int64_t free_before = 0,
               free_behind = 0;  ///< bytes of a card, before kernels were loaded and after
};

struct StepTrace {
  std::vector<DeviceTrace> devices = {};
  double seconds = 0;            ///< from the first instruction to the last
  pipeline::Timeline predicted;  ///< per part of the devices: stages on the same ones share it
};

/// A step that has not run: all devices of the plan, with what is predicted alone.
StepTrace predicted_trace_of(const Plan& plan);

/// JSON in Chrome's trace event format: a process per device, a thread per lane and for each kind
/// of what runs beside them.
std::string chrome_trace(const StepTrace& trace);

/// Two lines: "7.1 ms measured, 6.9 ms predicted; devices wait …", "slowest     stage 1: …".
std::string to_string(const StepTrace& trace);

}  // namespace alpa
