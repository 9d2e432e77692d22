// src/planning_budget.cc — moves the planner's limit until the exact peak keeps the memory budget
#include "planning_budget.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <optional>

#include "alpa/base/error.h"

namespace alpa {
namespace {

/// Plans that are tried under a moved limit before giving up.
constexpr int kBudgetAttempts = 10;

/// The limit on the bytes that the planner counts, moved until the exact peak keeps the budget. The
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
    const std::int64_t least = step_ == 0 ? 0 : std::max(2 * step_, budget_ / kLeastPart);
    step_ = std::max(peak - budget_, least);
    bytes_ = std::max<std::int64_t>(bytes_ - step_, 0);
    if (bytes_ <= under_) bytes_ = under_ + (over_ - under_) / 2;
  }

  /// No plan keeps this limit; `missing` bytes would have to be added at least.
  void was_too_low(std::int64_t missing) {
    under_ = bytes_ + std::max<std::int64_t>(missing - 1, 0);
    bytes_ = over_ == kNone ? under_ + 1 + rise_ : under_ + (over_ - under_) / 2;
    rise_ = std::max(2 * rise_, budget_ / kLeastRise);
  }

  /// True if another plan within the budget is unlikely.
  bool is_exhausted() const {
    return over_ - under_ < budget_ / kLeastPart || bytes_ > budget_ + budget_ / 10 ||
           bytes_ == under_;
  }

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  static constexpr std::int64_t kLeastPart = 200;  ///< limits differ by at least this part
  /// From the second refusal on, limits rise by more and more parts of the budget.
  static constexpr std::int64_t kLeastRise = 100;
  std::int64_t budget_, bytes_, step_ = 0, rise_ = 0;
  std::int64_t under_ = 0, over_ = kNone;  ///< limits known to be too low and too high
};

[[noreturn]] void fail_budget(std::int64_t budget, std::int64_t least, bool time_is_over) {
  throw intra_op::OverBudget(fmt::format(
      "the smallest plan found needs {} bytes per device, {} more than the memory budget of {}; "
      "use more devices, more micro-batches, ShardParallel instead of a fixed method, "
      "or raise the budget{}",
      least, least - budget, budget, time_is_over ? " or solver_seconds, which were used up" : ""));
}

}  // namespace

CompiledStep plan_within_budget(intra_op::AutoSharding& search, std::int64_t budget,
                                const LowerPlan& lower) {
  CompiledStep best = lower(search.plan(std::nullopt));
  if (best.memory_bytes <= budget) return best;
  const std::int64_t unconstrained = best.memory_bytes;
  std::exception_ptr failure;
  PlannersLimit limit(budget);
  for (int attempt = 0; attempt < kBudgetAttempts && !limit.is_exhausted(); ++attempt) {
    try {
      CompiledStep next = lower(search.plan(limit.bytes()));
      limit.was_too_high(next.memory_bytes);
      if (next.memory_bytes < best.memory_bytes) best = std::move(next);
      if (best.memory_bytes <= budget) return best;
    } catch (const intra_op::OverBudget& error) {
      if (limit.bytes() == budget) failure = std::current_exception();
      limit.was_too_low(error.missing_bytes);
      if (search.is_over()) break;  // plans that are known already take no more time
    }
  }
  if (failure && best.memory_bytes == unconstrained) std::rethrow_exception(failure);
  fail_budget(budget, best.memory_bytes, search.is_over());
}

namespace {

/// Stages whose plans are lowered again and again, each with a limit of its own.
struct StageAttempts {
  StagePlanner& planner;
  std::int64_t budget;
  const LowerStages& lower;
  std::optional<CompiledStep> best = {};
  std::int64_t uncounted = 0;  ///< bytes that lowering added to a stage, at most

  bool is_done() const { return best && best->memory_bytes <= budget; }

  /// Until the chosen stages keep the budget, or some stage has no smaller plan.
  void run(std::vector<std::int64_t> limits) {
    for (int attempt = 0; attempt < kBudgetAttempts && !is_done(); ++attempt) try {
        CompiledStep next = lower(planner.plan(limits));
        limits = next_limits(next, limits);
        if (!best || next.memory_bytes < best->memory_bytes) best = std::move(next);
      } catch (const intra_op::OverBudget&) {
        return;
      }
  }

  /// The budget less what lowering added; lower by its excess where a stage had that limit already.
  std::vector<std::int64_t> next_limits(const CompiledStep& step,
                                        const std::vector<std::int64_t>& limits) {
    std::vector<std::int64_t> next;
    for (std::size_t s = 0; s < step.stages.size(); ++s) {
      const std::int64_t bytes = step.stages[s].memory.total();
      const std::int64_t added = std::max<std::int64_t>(0, bytes - planner.counted(step.stages, s));
      next.push_back(budget - added);
      if (!limits.empty() && bytes > budget)
        next[s] = std::min(next[s], limits[s] - (bytes - budget));
      uncounted = std::max(uncounted, added);
    }
    return next;
  }
};

}  // namespace

CompiledStep plan_stages_within_budget(StagePlanner& planner, bool searched, std::int64_t budget,
                                       const LowerStages& lower) {
  StageAttempts attempts{planner, budget, lower};
  planner.choose(budget);
  attempts.run({});
  for (int k = 0; searched && k < kBudgetAttempts && !attempts.is_done(); ++k) try {
      planner.choose(budget - (k + 1) * attempts.uncounted);
      attempts.run({});
    } catch (const intra_op::OverBudget&) {
      break;
    }
  return *std::move(attempts.best);
}

}  // namespace alpa
