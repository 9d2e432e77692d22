#pragma once
/// A compiled training step: graph, plan and partitioned program. Needs no devices.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "alpa/mesh/cluster.h"
#include "alpa/plan/pipeline_plan.h"

namespace alpa::lower {
struct LoweredProgram;
}  // namespace alpa::lower

namespace alpa::spmd {
struct SpmdProgram;
}  // namespace alpa::spmd
#pragma GCC visibility push(default)

namespace alpa {

/// A partitioned program with its plan and planning time.
struct CompiledStep {
  Graph graph;                                            ///< the traced step
  Plan plan = {};                                         ///< what `program` follows
  std::shared_ptr<const spmd::SpmdProgram> program = {};  ///< partitioned, fused, bucketed
  std::int64_t memory_bytes = 0;  ///< exact peak per device, maximum over devices
  double seconds = 0;             ///< of tracing, planning and lowering together
  /// Phases of `seconds`, "3.1 s tracing, 5.0 s searching, …", if these exceed the limit of the
  /// method by more than a second; else empty. Time of other programs does not count.
  std::string overtime = {};
  std::shared_ptr<const lower::LoweredProgram> lowered = {};  ///< for the executor

  /// What the plan computes again in the backward pass, by number.
  std::vector<RecomputedLayer> recomputed() const;
  /// Collectives per step and device, by kind ("all_reduce").
  std::map<std::string, Traffic> traffic() const;
};

/// What the plan computes again, in a line: "3 of 12 layers, 240 us; 12.0 MiB of a micro-batch are
/// not kept: norm to head, …"; empty if it is nothing.
std::string recomputed_text(const CompiledStep& step);

/// As `to_string(Plan)`.
std::string to_string(const CompiledStep& step);

/// The stages' runs on a clock, if all take equally long: a line per part of the devices, such as
/// "m0: F0 F1 . B0 F2 B1 . B2 A2"; forward, backward and apply by micro-batch, '.' while it waits.
/// Empty for a step on one mesh.
std::string timeline(const CompiledStep& step);

/// The plan as JSON for `load_plan`.
std::string to_json(const CompiledStep& step);

/// What is predicted of a step as a Chrome trace (JSON, for chrome://tracing or Perfetto): when
/// each device runs which part of which micro-batch.
std::string predicted_trace(const CompiledStep& step);

/// A report of the plan as one HTML page that needs no other file: where seconds and bytes go, how
/// tensors are split, the timeline of a pipeline, and what the planner assumed of `cluster`.
/// `trace`: a Chrome trace of a step (Executable::trace), whose runs are shown beside the predicted
/// ones; none if empty. Throws Error if it is no such trace.
std::string report(const CompiledStep& step, const Cluster& cluster, const std::string& trace = "");

/// The plan explained in words, for devices of `cluster`.
std::string explain(const CompiledStep& step, const Cluster& cluster,
                    Detail detail = Detail::summary);

}  // namespace alpa
#pragma GCC visibility pop
