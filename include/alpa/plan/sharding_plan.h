#pragma once
/// The sharding plan of a graph: complete (partitioning needs no solver and no cost model),
/// plain data, written as JSON.
#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "alpa/ir/graph.h"
#include "alpa/mesh/collective.h"
#include "alpa/mesh/device_mesh.h"

namespace alpa::cost {
struct CostModel;
}  // namespace alpa::cost
#pragma GCC visibility push(default)

namespace alpa {

/// The use of one mesh axis in all nodes, where a plan is restricted.
enum class AxisUse : std::uint8_t {
  any,    ///< not restricted
  batch,  ///< splits the batch; each state tensor is whole or split, whichever is cheaper
  data,   ///< splits the batch and nothing else
  zero1,  ///< splits the batch, and the optimizer's state; sums of gradients are whole
  zero2,  ///< splits the batch, and the optimizer's state as far as its shapes allow
  zero3,  ///< splits the batch, and all state as far as its shapes allow
  /// splits heads and hidden features as Megatron-LM does, and tokens where there are none
  tensor,
  context,  ///< splits the tokens of rows, and state as the axis before it does
  experts,  ///< splits experts with their state, and all else as the axis before it does
};

/// The role of a mesh axis in a node.
struct AxisRole {
  /// What the axis does for the node.
  enum class Kind : std::uint8_t {
    none,    ///< every device along the axis does the same work
    factor,  ///< splits factor `index` of the rule
    linear,  ///< the operands in linear set `index` are partial sums, and so are the results
  } kind = Kind::none;     ///< the role
  std::uint8_t index = 0;  ///< of the factor, or of the linear set

  bool operator==(const AxisRole&) const = default;
};

/// One role per mesh axis. Axes that split the same factor do so in axis
/// order, the first being major.
struct Strategy {
  std::array<AxisRole, kMaxMeshAxes> axes{};  ///< by mesh axis
  bool operator==(const Strategy&) const = default;
};

/// "i@0 k@1"-like text: one word per axis with a role, factors numbered f0, f1, …,
/// linear sets l0, …; "-" if none.
std::string to_string(const Strategy& strategy);
/// Inverse of `to_string`. Throws Error on any other text.
Strategy parse_strategy(std::string_view text);

/// Users of values. A node needs operand j in `operand_spec`, an update needs the spec of the state
/// it replaces. A metric must be replicated; an output is left as it is produced.
enum class UseKind : std::uint8_t { node, update, metric, output };

/// One of these: `index` counts the graph's nodes, updates, metrics or outputs.
struct UseId {
  UseKind kind = UseKind::node;  ///< what uses the value
  int index = -1;                ///< among the graph's uses of this kind
  auto operator<=>(const UseId&) const = default;
};

/// The region in which a use happens: a node's own; backward (once per micro-batch) for the update
/// of an accumulator; apply for other updates and for metrics; for an output that of its value.
/// With several micro-batches, uses in region apply never share a resharding with others.
Region region_of_use(const Graph& graph, UseId use);

/// Per value, the accumulator that it updates, or -1. With several micro-batches, region apply
/// reads such a value from its accumulator, thus in the accumulator's spec. With one micro-batch,
/// and for other values, -1.
std::vector<int> accumulators_of_values(const Graph& graph);

/// One resharding of a value, done once and read by all `uses`. It starts from the value's spec and
/// is emitted just before the first use, in the region of that use. Reductions are emitted as early
/// as their operand is ready. One of state may be made once per step, before the micro-batches.
struct PlannedReshard {
  int value = -1;           ///< that is resharded
  ReshardPath path;         ///< its steps
  std::vector<UseId> uses;  ///< ascending
  /// made once per step, and kept for all micro-batches
  bool once = false;
};

/// Seconds of one step, split into compute and communication, and the solver's proof.
struct PlanCost {
  double objective_seconds = 0;                           ///< compute + communication
  double compute_seconds = 0, communication_seconds = 0;  ///< per step
  double lower_bound_seconds = 0;                         ///< proven for the objective
  /// (objective - bound) / objective; 0 for a plan without cost.
  double gap() const {
    return objective_seconds > 0 ? (objective_seconds - lower_bound_seconds) / objective_seconds
                                 : 0;
  }
};

/// What planning took, and the size of the solver's problem.
struct PlannerStatistics {
  double solve_seconds = 0, total_seconds = 0;  ///< the first: 10^9 table cells read are one second
  int nodes = 0, strategies = 0;                ///< of the solver instance before reductions
  /// of the program left for CBC; 0 if the reductions solved it
  int variables = 0, constraints = 0;
};

/// A rematerialised layer: what computing it again costs, and what is not kept for it.
struct RecomputedLayer {
  int number = 0;          ///< among the rematerialised layers, in the order of recording
  std::string nodes;       ///< the first and the last: "blocks.2.norm to blocks.2.down"
  double seconds = 0;      ///< per step, resharding included; predicted
  std::int64_t bytes = 0;  ///< of a device and a micro-batch that need not be kept
};

/// The method of plans that were not searched but follow another step's plan.
inline constexpr const char* kFollow = "follow";

/// How every node and value of a graph is laid out on a mesh.
struct ShardingPlan {
  std::string method;                       ///< "shard", "data", …
  DeviceMesh mesh;                          ///< logical mesh
  std::vector<Strategy> strategies;         ///< per node
  std::vector<ShardingSpec> specs;          ///< per value, as produced
  std::vector<PlannedReshard> reshards;     ///< ordered by first use
  PlanCost cost;                            ///< predicted
  PlannerStatistics statistics;             ///< of the search
  std::vector<RecomputedLayer> recomputed;  ///< by number; for readers
};

/// The plan in a line: "shard on mesh 4x2: 5.3 ms per step predicted (4.6 ms compute, 0.76 ms
/// communication), proven optimal".
std::string to_string(const ShardingPlan& plan);

/// Throws Error if the plan does not belong to this graph (other numbers of nodes and values),
/// contradicts its rules, or has a field out of range; says which node or field and how.
/// Messages begin with `name`.
void verify(const ShardingPlan& plan, const Graph& graph, const std::string& name = "plan");

/// Independent evaluator: prices node strategies and reshards of the plan under a cost model,
/// weighting regions by runs per step.
PlanCost evaluate(const ShardingPlan& plan, const Graph& graph, const cost::CostModel& model);

/// JSON, schema "alpa.plan/1", stable under re-planning of the same input (no times in it). It
/// holds the graph's text, so that it can be explained alone.
std::string to_json(const ShardingPlan& plan, const Graph& graph);
/// Throws Error on malformed text, if it was made for another graph (both structural hashes are
/// named), or for a plan that `verify` refuses; messages name `origin` and the place in the file.
ShardingPlan plan_from_json(const std::string& text, const Graph& graph, const std::string& origin);
/// The graph that a plan's file was written for. Throws Error on malformed text,
/// naming `origin` and the place.
Graph graph_from_plan_json(const std::string& text, const std::string& origin);

/// The layout of a tensor of this rank in words: "columns split over y (4 devices),
/// copies along x (2 devices)".
std::string describe(const ShardingSpec& spec, int rank, const DeviceMesh& mesh);

/// Work outside region apply that several devices repeat: the node has no legal split over them, or
/// splitting it would cost more. (Updates of state that every device holds are not counted.)
struct RepeatedWork {
  /// One node.
  struct Item {
    int node = -1;     ///< of the graph
    int devices = 1;   ///< that repeat it
    double share = 0;  ///< of the floating-point operations of a step
  };
  std::vector<Item> nodes;  ///< heaviest first
  double share = 0;         ///< of all of them together
};
/// The repeated work of a plan, heaviest node first.
RepeatedWork repeated_work(const ShardingPlan& plan, const Graph& graph);

/// Repeated work in one line that names the heaviest nodes; empty below 1 % of the operations.
std::string repeated_work_text(const ShardingPlan& plan, const Graph& graph);

/// The best plan so far, and the proven lower bound. Under a memory budget, planning first searches
/// without it. If the best plan then exceeds the budget, the search starts again within the budget.
struct PlanningProgress {
  /// Seconds of a step under the best plan so far; infinite: none yet.
  double best_seconds = std::numeric_limits<double>::infinity();
  /// Proven lower bound, over all meshes; while stages are searched for, over all stages. 0: none.
  double lower_bound_seconds = 0;
  double elapsed_seconds = 0;  ///< since planning began
  /// mesh shape of the best plan so far, e.g. 2x4; empty: none yet
  std::string mesh = {};
  /// Memory limit of the current search, per device; none: unlimited.
  std::optional<std::int64_t> bytes = {};
  int stages = 0;  ///< of the best plan, while stages are searched for
  /// Searches made for stages, and candidates (ranges of layers on submeshes). Bounds rule out
  /// most candidates without a search.
  int searches = 0, ranges = 0;
  double seconds_left = 0;  ///< until the time limit, while stages are searched for

  /// (best - lower bound) / best; 1 while there is no plan.
  double gap() const {
    if (best_seconds == std::numeric_limits<double>::infinity()) return 1;
    return best_seconds > 0 ? (best_seconds - lower_bound_seconds) / best_seconds : 0;
  }
};

/// Called on the planning thread whenever the best plan or the bound improves. Must not
/// throw; planning waits for it.
using ProgressCallback = std::function<void(const PlanningProgress&)>;

/// How much `explain` says.
enum class Detail : std::uint8_t {
  /// at most ten lines: where time and memory go, what is split how, what the next best costs
  summary,
  /// then also all state, the largest communications with their reasons, the dearest choices
  full,
};

/// The plan explained in words. `memory_bytes`: the exact peak of a device, if known; otherwise it
/// is estimated from the sizes of values. "Next best" is the cheapest plan that does one of the
/// most expensive operators in another way, all else equal.
std::string explain(const ShardingPlan& plan, const Graph& graph, const cost::CostModel& model,
                    Detail detail = Detail::summary, std::optional<std::int64_t> memory_bytes = {});

}  // namespace alpa

template <>
struct fmt::formatter<alpa::ShardingPlan> : alpa::TextFormatter<alpa::ShardingPlan> {};
#pragma GCC visibility pop
