#pragma once
/// Searches for the best plan whose lowered program fits the memory budget. The planner counts
/// bytes; only lowering knows the exact peak.
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "alpa/compile/compiled_step.h"
#include "stage_planner.h"

namespace alpa {

/// A search for plans of one graph, within a memory budget.
class PlanSearch {
 public:
  virtual ~PlanSearch() = default;

  /// The plan to try next: the best without a budget if `last` is null; otherwise one with less
  /// memory, given what the last one takes when lowered (CompiledStep::memory_bytes,
  /// StagePlan::memory). None: no other plan is likely to fit. Throws Error if there can be none.
  virtual std::optional<Plan> next(const CompiledStep* last) = 0;

  /// A plan that the search expects to take less than a lowered one, of so many seconds, turned out
  /// to take; none: there is none.
  virtual std::optional<Plan> other(double /*seconds*/) { return std::nullopt; }

  /// Sets the proven bounds of a lowered plan.
  virtual void set_bounds(Plan& /*plan*/) const {}

  /// True if the search for a lowered plan ended by itself, at this gap in its own count.
  virtual bool is_complete(const PlanCost& cost, double gap) const { return cost.gap() <= gap; }

  /// The exception if no plan fits: an intra_op::OverBudget that says what the smallest plan met
  /// (null: none) lacks, and how to mend it.
  virtual std::exception_ptr failure(const CompiledStep* smallest) const = 0;
};

/// The search for a plan of `graph` that `method` asks for: on one mesh, or in stages. This is the
/// only place that decides it. Arguments must outlive the search.
std::unique_ptr<PlanSearch> search_for(const Graph& graph, const MethodOptions& method,
                                       const Cluster& cluster, std::int64_t budget,
                                       const TraceSeconds& tracing);

/// The search of a planner of stages that may have begun.
std::unique_ptr<PlanSearch> search_for(std::shared_ptr<StagePlanner> planner,
                                       const MethodOptions& method, std::int64_t budget);

/// Lowers a plan: `memory_bytes` of the result is the exact peak of a device.
using LowerPlan = std::function<CompiledStep(Plan plan)>;

/// The first plan of `search` whose peak fits `budget` (bytes per device), or another that takes
/// less when lowered. Throws what `search` throws if there is none.
CompiledStep fit_budget(PlanSearch& search, std::int64_t budget, const LowerPlan& lower);

}  // namespace alpa
