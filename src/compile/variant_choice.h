#pragma once
/// Chooses among variants of a step whose stages are searched for: its number of micro-batches, and
/// whether its layers are computed again. The searches of all variants take turns: the one with the
/// least bound goes on, until no bound is below the best stages of any variant. So most are ruled
/// out by bounds alone.
#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <vector>

#include "src/search/stages/stage_guess.h"
#include "stage_planner.h"
#include "step_variant.h"
#include "tuning.h"
#include "variant_guesses.h"
#include "variant_proof.h"

namespace alpa {

/// Throws the failure, which stands for others: together they have no plan for this reason.
[[noreturn]] void rethrow(const std::exception_ptr& failure, intra_op::NoPlan why);

/// A variant, with its graph and its search.
struct PlannedVariant {
  const StepVariant& variant;
  MethodOptions method;  ///< with its number of micro-batches
  Graph graph;
  /// Equal stages to plan first, from the last one on.
  std::vector<inter_op::StageGuess> guesses = {};
  std::shared_ptr<StagePlanner> planner = nullptr;  ///< of `graph`
  bool open = true;                                 ///< its search may go on
  bool dropped = false;                             ///< it has no plan
  double spent_seconds = 0;                         ///< of work, on its search

  double bound() const { return dropped ? kInfinity : planner->bound(); }
  double best_seconds() const { return dropped ? kInfinity : planner->best_seconds(); }
  double next_guess() const { return inter_op::least_seconds(guesses); }
};

class VariantChoice {
 public:
  /// Traces all variants, of a large step those that are guessed to be best, as long as there is
  /// time, and begins their searches. Others are added where bounds find them promising. The
  /// method's limits hold for all variants together. Arguments must outlive it.
  VariantChoice(const std::vector<StepVariant>& variants, const MethodOptions& method,
                const Cluster& cluster, std::int64_t budget);

  /// The variant whose stages take the least predicted seconds, up to the method's relative gap;
  /// its planner knows what the others take at least. Throws, if there is none, what the first
  /// variant failed with, or Error if all were dropped without a failure.
  PlannedVariant& best();

  /// Seconds that no variant takes less than, whatever layers it computes again; no more than
  /// `seconds`, those of the best plan. Raised with what is left on the clock.
  double proven_of_all(double seconds);

  /// The best variant and near ones, in this order, of which other stages may take less if layers
  /// are computed again by stage: all are computed again, or plans gave up speed to fit the memory.
  std::vector<PlannedVariant*> short_of_memory(const PlannedVariant& best);

  /// `variant` is no choice any more: with the current exception, if it has no plan after all.
  void drop(PlannedVariant& variant);

 private:
  void trace();
  PlannedVariant* add(std::size_t number, bool in_front);
  void add_promising(double enough);
  void begin_searches();
  std::vector<PlannedVariant*> best_guesses();
  bool plan_next_guesses();
  void plan_guesses_of(const std::vector<PlannedVariant*>& variants);
  void plan_best_again();
  bool may_search(const PlannedVariant& variant) const;
  void note_failure();
  std::string proven_failure() const;
  [[noreturn]] void fail_to_plan() const;
  void set_others_of(const PlannedVariant& best) const;
  void prove(double seconds, double work_seconds);
  bool look_further();
  double bound_of(const PlannedVariant& variant) const;
  void race();
  std::vector<PlannedVariant*> next_turns();
  PlannedVariant* most_promising(const std::vector<PlannedVariant*>& taken);
  PlannedVariant* best_so_far();  ///< null: none has stages
  bool has_passed(double share_of_time) const;
  bool goes_on_guessing(double share_of_work);
  bool is_stuck() const;
  void tell();

  const std::vector<StepVariant>& all_;  ///< of which few are searched, if the step is large
  const MethodOptions& method_;
  const Cluster& cluster_;
  const std::int64_t budget_;
  const Stopwatch tracing_;
  VariantGuesses guesses_;
  const bool is_large_;
  std::deque<PlannedVariant> variants_;  ///< those that are searched
  bool has_begun_ = false;
  int looks_ = 0;                       ///< how often bounds were asked which variants to add
  std::atomic<bool> any_plan_ = false;  ///< of any variant
  /// Least ratio so far of the seconds that stages take to their guess.
  double ratio_of_guesses_ = kCompileTuning.micro_batches.most_of_guess;
  double longest_turn_ = 0;  ///< of a search, in seconds of work
  double best_seconds_ = kInfinity;
  double best_found_at_ = 0;    ///< seconds of work since planning began
  bool all_traced_ = true;      ///< and their searches begun
  double bound_of_all_;         ///< of every variant, in seconds
  VariantProof proof_;          ///< of a large step
  double tracing_seconds_ = 0;  ///< on the clock, of all variants
  std::exception_ptr first_failure_;
  intra_op::NoPlan why_ = intra_op::NoPlan::proven;  ///< of all failures together
};

}  // namespace alpa
