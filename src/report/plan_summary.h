#pragma once
/// Plans in words: at a glance, and what their layouts, strategies and updates are.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "alpa/plan/sharding_plan.h"
#include "src/plan/evaluation/evaluate.h"

namespace alpa::intra_op {

/// At most ten lines, see `explain`.
std::string plan_summary(const PricedPlan& priced, std::optional<std::int64_t> memory_bytes);

/// Text on the plan's proven distance from the optimum: "proven optimal", "within 0.44 % of optimal
/// (no plan takes less than 69 ms)", "not proven to be optimal", "along the plan of another step".
std::string proof_text(std::string_view method, const PlanCost& cost);
/// The same without the bound in seconds.
std::string proof_words(const PlanCost& cost);

/// The numbers with the most of `seconds`, descending: at most `most` of those that `counts`
/// allows.
std::vector<int> slowest(const std::vector<double>& seconds, std::size_t most,
                         const std::function<bool(int)>& counts);

/// Tensors in one layout.
struct LayoutGroup {
  std::string layout;
  std::vector<std::string> names;
  double bytes = 0;
};

/// Adds a tensor to the group of its layout, which is a new one behind the others if there is none.
void add_to_group(std::vector<LayoutGroup>& groups, const std::string& layout,
                  const std::string& name, double bytes);

/// "+3.1 ms", "-0.12 ms", "+0".
std::string extra_text(double seconds);

/// "x+y", the axes of a step.
std::string axes_text(const ReshardStep& step, const DeviceMesh& mesh);

/// "reduce_scatter over x, then all_gather over y".
std::string path_text(const ReshardPath& path, const DeviceMesh& mesh);

/// "columns of the result split over y" for the factors of a strategy.
std::string strategy_text(const Rule& rule, const Strategy& strategy, const DeviceMesh& mesh);

/// The same of a node with this strategy instead of its own.
std::string strategy_text(const PricedPlan& priced, int node, const Strategy& strategy);

/// One resharding in words, and what it takes per step and device.
struct Communication {
  std::string path, type;    ///< "all_reduce over x", "f32[8, 16]"
  std::string from, target;  ///< the nodes that leave the value, and want it first
  std::string left, wanted;  ///< layouts
  int runs = 0;
  double seconds = 0, bytes = 0;  ///< bytes that a device sends
};

/// All reshardings of the plan, in its order.
std::vector<Communication> communications(const PricedPlan& priced);

/// How the update of state `input` reaches it: "updated in place, each device its part".
std::string update_text(const ShardingPlan& plan, const Graph& graph, const Input& input);

/// The cheapest other strategy of one node when its neighbours keep theirs: not what the
/// second-best plan costs, in which they might change too.
struct Alternative {
  Strategy strategy;
  double extra_seconds = 0;  ///< per step, over the plan
};

/// Every other strategy of a node that its neighbours can live with.
std::vector<Alternative> alternatives(int node, const PricedPlan& priced);

/// The cheapest alternative of each node of `nodes`; nullopt where a node has no other strategy
/// that its neighbours can live with.
std::vector<std::optional<Alternative>> next_best(const std::vector<int>& nodes,
                                                  const PricedPlan& priced);

}  // namespace alpa::intra_op
