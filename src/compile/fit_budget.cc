// src/compile/fit_budget.cc — moves the planner's limit until the exact peak fits the budget
#include "fit_budget.h"

#include <algorithm>
#include <limits>

#include "alpa/base/error.h"
#include "src/base/infinity.h"
#include "src/search/sharding/auto_shard.h"
#include "src/search/stages/cut_stages.h"
#include "tuning.h"

namespace alpa {
namespace {

constexpr CompileTuning::FitBudget kTuning = kCompileTuning.fit_budget;

/// The limit on the bytes that the planner counts, moved until the exact peak fits the budget. The
/// count knows neither padding and scratch nor what packing loses and what overlapping collectives
/// keep alive; and it may be too high where nodes are fused in ways it does not foresee.
class PlannersLimit {
 public:
  explicit PlannersLimit(std::int64_t budget) : budget_(budget), bytes_(budget) {}

  std::int64_t bytes() const { return bytes_; }

  /// The plan under this limit really takes `peak` bytes, more than the budget.
  void was_too_high(std::int64_t peak) {
    over_ = bytes_;
    // A small excess can take a far smaller limit, so later steps count in parts of the budget.
    const std::int64_t least = step_ == 0 ? 0 : std::max(2 * step_, budget_ / kTuning.least_part);
    step_ = std::max(peak - budget_, least);
    bytes_ = std::max<std::int64_t>(bytes_ - step_, 0);
    if (bytes_ <= under_) bytes_ = under_ + (over_ - under_) / 2;
  }

  /// No plan fits this limit; `missing` bytes would have to be added at least.
  void was_too_low(std::int64_t missing) {
    under_ = bytes_ + std::max<std::int64_t>(missing - 1, 0);
    bytes_ = over_ == kNone ? under_ + 1 + rise_ : under_ + (over_ - under_) / 2;
    rise_ = std::max(2 * rise_, budget_ / kTuning.least_rise);
  }

  /// True if another plan within the budget is unlikely.
  bool is_exhausted() const {
    return over_ - under_ < budget_ / kTuning.least_part ||
           bytes_ > budget_ + budget_ / kTuning.most_rise || bytes_ == under_;
  }

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::int64_t budget_, bytes_, step_ = 0, rise_ = 0;
  std::int64_t under_ = 0, over_ = kNone;  ///< limits known to be too low and too high
};

std::exception_ptr over_budget(std::int64_t budget, std::int64_t least, intra_op::NoPlan why) {
  const bool late = why == intra_op::NoPlan::out_of_time;
  return std::make_exception_ptr(intra_op::OverBudget(
      fmt::format("the smallest plan found needs {} bytes per device, {} more than the memory "
                  "budget of {}; use more devices, more micro-batches, ShardParallel instead of a "
                  "fixed method, or raise the budget{}",
                  least, least - budget, budget,
                  late ? " or solver_seconds, which were used up" : ""),
      why));
}

/// Plans on one mesh.
class ShardingSearch : public PlanSearch {
 public:
  ShardingSearch(const Graph& graph, std::vector<DeviceMesh> meshes, const Cluster& cluster,
                 intra_op::AutoShardOptions options, std::int64_t budget)
      : graph_(graph),
        model_(cost::CostModel::of(cluster)),
        search_(graph, std::move(meshes), model_, std::move(options)),
        budget_(budget),
        limit_(budget) {}

  std::optional<Plan> next(const CompiledStep* last) override {
    if (!last) return plan_of_one_stage(graph_, search_.plan(std::nullopt));
    if (unconstrained_ == 0)
      unconstrained_ = last->memory_bytes;
    else
      limit_.was_too_high(last->memory_bytes);
    for (; attempts_ < kTuning.attempts && !limit_.is_exhausted(); ++attempts_) try {
        Plan plan = plan_of_one_stage(graph_, search_.plan(limit_.bytes()));
        ++attempts_;
        return plan;
      } catch (const intra_op::OverBudget& error) {
        if (limit_.bytes() == budget_) {
          failure_ = std::current_exception();
          is_refuted_ = error.why == intra_op::NoPlan::proven;
        }
        limit_.was_too_low(error.missing_bytes);
        if (search_.is_over()) break;  // plans that are known already take no more time
      }
    return std::nullopt;
  }

  std::exception_ptr failure(const CompiledStep* smallest) const override {
    if (failure_ && smallest->memory_bytes == unconstrained_) return failure_;
    using intra_op::NoPlan;
    return over_budget(budget_, smallest->memory_bytes,
                       is_refuted_         ? NoPlan::proven
                       : search_.is_over() ? NoPlan::out_of_time
                                           : NoPlan::not_found);
  }

 private:
  const Graph& graph_;
  const cost::CostModel model_;
  intra_op::AutoSharding search_;
  const std::int64_t budget_;
  std::int64_t unconstrained_ = 0;  ///< peak of the best plan without a budget
  PlannersLimit limit_;
  int attempts_ = 0;
  std::exception_ptr failure_;  ///< of the limit that is the budget
  bool is_refuted_ = false;     ///< proven for that limit
};

/// Plans in stages. Those that exceed the budget get plans with less memory; stages that are
/// searched for are searched for again if that does not suffice.
class PipelineSearch : public PlanSearch {
 public:
  PipelineSearch(std::shared_ptr<StagePlanner> planner, const MethodOptions& method,
                 std::int64_t budget)
      : planner_(std::move(planner)), method_(method), budget_(budget) {}

  std::optional<Plan> next(const CompiledStep* last) override {
    if (last)
      limits_ = next_limits(last->plan.stages);
    else
      planner_->choose(budget_);
    do {
      while (attempts_ < kTuning.attempts) try {
          ++attempts_;
          return in_stages(planner_->plan(limits_));
        } catch (const intra_op::OverBudget&) {  // some stage has no smaller plan
          failure_ = std::current_exception();
          break;
        }
    } while (choose_again());
    return std::nullopt;
  }

  std::optional<Plan> other(double seconds) override {
    if (!planner_->choose_other(seconds) && !planner_->choose_fewest_in_flight(seconds))
      return std::nullopt;
    return in_stages(planner_->plan({}));
  }

  void set_bounds(Plan& plan) const override {
    const double most = plan.cost.objective_seconds;
    plan.cost.lower_bound_seconds = std::min(planner_->lower_bound(), most);
    plan.variant_bound_seconds = std::min(planner_->variant_bound(), most);
  }

  bool is_complete(const PlanCost& /*cost*/, double /*gap*/) const override {
    return planner_->is_complete();
  }

  std::exception_ptr failure(const CompiledStep* smallest) const override {
    if (!smallest) return failure_;
    return std::make_exception_ptr(intra_op::OverBudget(fmt::format(
        "method pipeline: the stages need {} bytes per device, {} more than the memory budget of "
        "{}; give more devices or stages, or raise the budget",
        smallest->memory_bytes, smallest->memory_bytes - budget_, budget_)));
  }

 private:
  Plan in_stages(std::vector<StagePlan> stages) const {
    return {.method = std::string(name_of(method_.kind)),
            .stages = std::move(stages),
            .schedule = planner_->schedule()};
  }

  /// Other stages, with fewer micro-batches in flight, or for a budget that is lower by what
  /// lowering added; false: there are none.
  bool choose_again() {
    if (!searches_stages(method_) || choices_ == kTuning.attempts) return false;
    try {
      if (!planner_->choose_fewest_in_flight(kInfinity))
        planner_->choose(budget_ - ++choices_ * uncounted_);
    } catch (const intra_op::OverBudget&) {
      failure_ = std::current_exception();
      return false;
    }
    limits_.clear();
    attempts_ = 0;
    return true;
  }

  /// The budget less what lowering added; lower by its excess where a stage had that limit already.
  std::vector<std::int64_t> next_limits(const std::vector<StagePlan>& stages) {
    std::vector<std::int64_t> next;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const std::int64_t bytes = stages[s].memory.total();
      const std::int64_t added = std::max<std::int64_t>(0, bytes - planner_->counted(stages, s));
      next.push_back(budget_ - added);
      if (!limits_.empty() && bytes > budget_)
        next[s] = std::min(next[s], limits_[s] - (bytes - budget_));
      uncounted_ = std::max(uncounted_, added);
    }
    return next;
  }

  const std::shared_ptr<StagePlanner> planner_;
  const MethodOptions& method_;
  const std::int64_t budget_;
  std::vector<std::int64_t> limits_;  ///< of the stages
  std::int64_t uncounted_ = 0;        ///< bytes that lowering added to a stage, at most
  int attempts_ = 0, choices_ = 0;    ///< the first: with the stages chosen last
  std::exception_ptr failure_;
};

}  // namespace

std::unique_ptr<PlanSearch> search_for(const Graph& graph, const MethodOptions& method,
                                       const Cluster& cluster, std::int64_t budget,
                                       const TraceSeconds& tracing) {
  if (method.kind == MethodKind::pipeline)
    return search_for(std::make_shared<StagePlanner>(graph, method, cluster, tracing), method,
                      budget);
  intra_op::AutoShardOptions options = search_options(method, tracing);
  options.memory_budget_bytes = budget;
  return std::make_unique<ShardingSearch>(graph, candidate_meshes(method, cluster), cluster,
                                          std::move(options), budget);
}

std::unique_ptr<PlanSearch> search_for(std::shared_ptr<StagePlanner> planner,
                                       const MethodOptions& method, std::int64_t budget) {
  return std::make_unique<PipelineSearch>(std::move(planner), method, budget);
}

namespace {

/// The fastest of `best` and what the search expected to be faster.
CompiledStep best_of_others(PlanSearch& search, std::int64_t budget, const LowerPlan& lower,
                            CompiledStep best) {
  try {
    while (std::optional<Plan> plan = search.other(best.plan.cost.objective_seconds)) {
      CompiledStep other = lower(*std::move(plan));
      search.set_bounds(other.plan);
      if (other.memory_bytes <= budget &&
          other.plan.cost.objective_seconds < best.plan.cost.objective_seconds)
        best = std::move(other);
    }
  } catch (const Error&) {  // time is over
  }
  return best;
}

}  // namespace

CompiledStep fit_budget(PlanSearch& search, std::int64_t budget, const LowerPlan& lower) {
  std::optional<CompiledStep> smallest;
  std::optional<Plan> plan = search.next(nullptr);
  while (plan) {
    CompiledStep lowered = lower(*std::move(plan));
    search.set_bounds(lowered.plan);
    if (lowered.memory_bytes <= budget)
      return best_of_others(search, budget, lower, std::move(lowered));
    plan = search.next(&lowered);
    if (!smallest || lowered.memory_bytes < smallest->memory_bytes) smallest = std::move(lowered);
  }
  std::rethrow_exception(search.failure(smallest ? &*smallest : nullptr));
}

}  // namespace alpa
