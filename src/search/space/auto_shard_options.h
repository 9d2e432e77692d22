#pragma once
/// Options of the planner, and its error for budgets that no plan fits.
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alpa/base/error.h"
#include "alpa/plan/sharding_plan.h"
#include "src/base/infinity.h"
#include "src/base/processor_watch.h"

namespace alpa::intra_op {

struct LoopShare;

/// How the devices of a mesh hold state.
enum class Holding : std::uint8_t {
  any,    ///< whole or split, whichever is cheaper
  whole,  ///< every device all of it
  split,  ///< split over all devices, as far as its shapes allow
};

/// An operator that leaves its first result in this spec, and is free otherwise: neither the method
/// nor a template restricts it.
struct PinnedNode {
  int node = -1;
  ShardingSpec spec = {};
};

/// The plans that may be found. The defaults allow all; parallel methods are the same program with
/// fewer choices.
struct AllowedPlans {
  /// this mesh axis must split the batch wherever a node has a batch dimension
  std::optional<int> batch_mesh_axis = {};
  bool split_batch_everywhere = false;  ///< every mesh axis must (data parallelism)
  /// Uses of the first mesh axes, in addition to the other options; all axes of
  /// `tensor` are used as one.
  std::vector<AxisUse> axis_uses = {};
  Holding parameters = Holding::any;       ///< split: ZeRO-3
  Holding optimizer_state = Holding::any;  ///< split: ZeRO-2
  Holding gradients = Holding::any;        ///< their sums over micro-batches
  bool all_gather = true;
  bool all_to_all = true;
  bool fixed_sums = false;  ///< those alone that keep the order of sums (`keeps_sum_order`)
  std::vector<PinnedNode> pins = {};  ///< each of another node

  /// True if mesh axes may be used in every way.
  bool leaves_axes_free() const {
    return !split_batch_everywhere && !batch_mesh_axis && axis_uses.empty();
  }
};

/// A graph that is part of another one: what the whole tells of it.
struct PartOfGraph {
  /// Boundary inputs arrive whole or split, not as partial sums: from another mesh.
  bool whole_boundary_inputs = false;
  /// Batch dimensions of boundary inputs, by name; the others have none.
  std::map<std::string, int> boundary_batch_dims;
  /// Per node, its part in its loop (fusion.h), where loops reach beyond the part; null: as
  /// `loop_shares` says. Must outlive the search.
  const std::vector<LoopShare>* loops = nullptr;
  /// Micro-batches that keep what their backward runs read, at the same time (counted_bytes).
  int in_flight = 1;
  /// Per mesh that is searched, seconds that no plan takes less than; empty: none are known.
  std::vector<double> mesh_bounds = {};
};

/// When a search ends.
struct SearchLimits {
  double seconds = 60;                      ///< of work (src/base/work.h)
  double clock_seconds = kInfinity;         ///< of the clock, whatever the work
  const std::atomic<bool>* stop = nullptr;  ///< when true, planning ends as at the time limit
  /// The search ends when (objective - bound) / objective is at most this. Easy problems are solved
  /// to proven optimality anyway.
  double relative_gap = 0.005;
  /// Work of the first round over the meshes, as a share of what a plan of a whole step is worth.
  double effort = 1;
  /// Rounds end, too, when the last one closed less than this share of the gap. 0: they do not.
  double least_gain = 0;
  /// The search ends with the first plan that keeps the budget: where layers repeat, with a plan of
  /// repeated layers, which is near the best one and takes a tenth of its work.
  bool first_plan = false;
  /// Once there is a plan, only cheaper ones than this matter: the search ends when none is left.
  double cutoff_seconds = kInfinity;
  /// Beyond either limit: what a plan needs at least is not begun after these. On the clock, time
  /// in which other programs have the processor does not count.
  double overtime_seconds = kOvertimeSeconds;
  /// End of the search for a first plan, whatever work and clock say. Time in which other programs
  /// have the processor does not count.
  double first_plan_seconds = kInfinity;
};

/// Question of a search on one graph.
struct AutoShardOptions {
  std::string method = "shard";  ///< named by plans and errors
  AllowedPlans allowed = {};
  PartOfGraph part = {};
  /// per device, for all that is live at any point of the program
  std::optional<std::int64_t> memory_budget_bytes = {};
  bool explain = true;  ///< by how many bytes, where no plan fits: may take as long as to prove it
  SearchLimits limits = {};
  ProgressCallback progress = {};
};

/// True if plans may make copies of state once per step and keep them for all micro-batches. Where
/// state may be whole, that takes as long, less memory, and fewer choices to search.
inline bool copies_state_once(const AutoShardOptions& options) {
  return options.allowed.parameters == Holding::split;
}

/// Every mesh axis splits the batch; state is held so.
inline AutoShardOptions batch_only(std::string method, Holding parameters,
                                   Holding optimizer_state) {
  return {.method = std::move(method),
          .allowed = {.split_batch_everywhere = true,
                      .parameters = parameters,
                      .optimizer_state = optimizer_state}};
}
inline AutoShardOptions data_parallel_options() {
  return batch_only("data", Holding::whole, Holding::whole);
}
inline AutoShardOptions zero2_options() {
  return batch_only("zero2", Holding::whole, Holding::split);
}
inline AutoShardOptions zero3_options() {
  return batch_only("zero3", Holding::split, Holding::split);
}

/// Why there is no plan within the memory budget; of several searches together, the least.
enum class NoPlan : std::uint8_t {
  out_of_time,  ///< time ended before one was found
  not_found,    ///< the search ended by itself, without a proof
  proven,       ///< none fits, as the planner counts bytes
};

/// No plan fits the memory budget, or none was found in time. The message says by how many bytes,
/// where, and what would help.
class OverBudget : public Error {
 public:
  explicit OverBudget(const std::string& message, NoPlan reason = NoPlan::not_found)
      : Error(message), why(reason) {}
  /// With the bytes of another one.
  OverBudget(const std::string& message, NoPlan reason, const OverBudget& other)
      : OverBudget(message, reason) {
    missing_bytes = other.missing_bytes;
    least_bytes = other.least_bytes;
    smallest_bytes = other.smallest_bytes;
  }
  NoPlan why;
  std::int64_t missing_bytes = 0;   ///< lower bound; 0: nothing is proven
  std::int64_t least_bytes = 0;     ///< that any plan is proven to take; 0: nothing is proven
  std::int64_t smallest_bytes = 0;  ///< counted, of the smallest plan found; 0: none was
};

}  // namespace alpa::intra_op
