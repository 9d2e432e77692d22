#pragma once
/// Counts of the work that a step queues on one device, from its program: no device is needed.
#include <optional>
#include <string>
#include <vector>

#include "src/lower/device_program.h"
#include "src/plan/cost/cost_model.h"

namespace alpa::lower {

/// All instructions of one kind in a step: of an operator, of a collective, or "send", "copy", ….
struct KindCount {
  std::string kind;
  std::int64_t launches = 0;          ///< calls of kernels and of collectives
  std::int64_t in_micro_batches = 0;  ///< of those, the ones that are not once per step
  double bytes = 0;                   ///< read and written by operators; of messages, sent
  double flops = 0;
  /// predicted: each call at max(FLOPs / rate, bytes / bandwidth) and a launch; 0 of communication
  double seconds = 0;
};

/// One run of an instruction; nothing if it launches nothing. Seconds are those of `model`.
std::optional<KindCount> count_of(const Graph& graph, const DeviceProgram& device,
                                  const Instruction& instruction,
                                  const cost::CostModel& model = {});

/// One row per kind, most launches first. Loads of inputs and waits are no launches. A call of a
/// kernel may be several launches of a card: sums in pieces, copies before products.
std::vector<KindCount> count_step(const spmd::SpmdProgram& program, const DeviceProgram& device,
                                  const cost::CostModel& model = {});

/// The sums of all rows, of kind "all".
KindCount total_of(const std::vector<KindCount>& rows);

}  // namespace alpa::lower
