// src/compile/variant_choice.cc — the searches of all variants of a step, in turns
#include "variant_choice.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "alpa/base/error.h"
#include "src/base/infinity.h"
#include "src/base/thread_team.h"
#include "src/ir/input.h"

namespace alpa {

void rethrow(const std::exception_ptr& failure, intra_op::NoPlan why) {
  try {
    std::rethrow_exception(failure);
  } catch (intra_op::OverBudget& error) {
    error.why = std::min(error.why, why);
    throw;
  }
}

namespace {

/// Throws OverBudget if no division of state and sums of gradients fits the budget.
void check_held(const Graph& graph, const Cluster& cluster, std::int64_t budget) {
  const std::int64_t state = bytes_of(graph, InputKind::state),
                     sums = bytes_of(graph, InputKind::accumulator);
  const int devices = cluster.num_devices();
  const std::int64_t least = (state + sums + devices - 1) / devices;  // an even part
  if (least <= budget) return;
  intra_op::OverBudget error(
      fmt::format("with {} micro-batches, parameters and optimizer state ({} bytes) and sums of "
                  "gradients ({} bytes) take at least {} bytes of each of {} devices, but the "
                  "memory budget is {}; use more devices, or an optimizer that keeps less, such as "
                  "Adafactor",
                  graph.num_micro_batches, state, sums, least, devices, budget),
      intra_op::NoPlan::proven);
  error.least_bytes = least;
  throw error;
}

/// The most promising first. Guesses with layers computed again, and those without, each err alike:
/// the best of the other kind comes second, if it is near.
template <class Variant, class Seconds, class Recomputes>
void sort_by_guess(std::vector<Variant>& variants, const Seconds& seconds,
                   const Recomputes& recomputes) {
  std::ranges::stable_sort(variants, {}, seconds);
  if (variants.empty()) return;
  const auto other = std::ranges::find_if(
      variants, [&](const Variant& v) { return recomputes(v) != recomputes(variants.front()); });
  if (other != variants.end() &&
      seconds(*other) <= kCompileTuning.micro_batches.near_guess * seconds(variants.front()))
    std::rotate(variants.begin() + 1, other, other + 1);
}

}  // namespace

VariantChoice::VariantChoice(const std::vector<StepVariant>& variants, const MethodOptions& method,
                             const Cluster& cluster, std::int64_t budget)
    : all_(variants),
      method_(method),
      cluster_(cluster),
      budget_(budget),
      guesses_(variants, method, cluster, budget),
      is_large_(guesses_.nodes() > kCompileTuning.micro_batches.large_nodes),
      bound_of_all_(guesses_.bound()),
      proof_(variants, method, cluster, budget) {
  trace();
  tracing_seconds_ = tracing_.seconds();
}

void VariantChoice::trace() {
  const auto& tuning = kCompileTuning.micro_batches;
  // The best guesses first, as time may end; then the last one of all, which fits if anything does.
  std::vector<std::size_t> order(all_.size() - 1);
  std::iota(order.begin(), order.end(), 0);
  sort_by_guess(
      order, [&](std::size_t v) { return guesses_.seconds(v); },
      [&](std::size_t v) { return all_[v].recomputes; });
  if (is_large_ && order.size() > tuning.most_of_large) {
    order.resize(tuning.most_of_large);
    all_traced_ = false;
  }
  order.insert(order.begin() + (order.empty() ? 0 : 1), all_.size() - 1);
  for (auto next = order.begin(); next != order.end(); ++next) {
    if (next != order.begin() && has_passed(tuning.tracing_share)) {
      all_traced_ = false;
      order.erase(next, order.end());
      break;
    }
    guesses_.trace(*next);
  }
  std::ranges::sort(order);
  for (const std::size_t v : order) add(v, false);
}

/// In front of the others, or behind them: they keep their places, as searches refer to them. Null:
/// it fails.
PlannedVariant* VariantChoice::add(std::size_t number, bool in_front) {
  MethodOptions own = method_of(all_[number], method_);
  try {
    Graph graph = guesses_.take(number);
    check_size(graph, own, cluster_);
    check_held(graph, cluster_, budget_);
    PlannedVariant variant{all_[number], std::move(own), std::move(graph), guesses_.of(number)};
    in_front ? variants_.push_front(std::move(variant)) : variants_.push_back(std::move(variant));
    PlannedVariant& added = in_front ? variants_.front() : variants_.back();
    added.planner =
        std::make_shared<StagePlanner>(added.graph, added.method, cluster_,
                                       guesses_.trace_seconds(), method_.watch.work.seconds());
    return &added;
  } catch (const Error&) {
    note_failure();
    return nullptr;
  }
}

/// Adds variants of the numbers of micro-batches that bounds, rather than guesses, say may be
/// better than the best stages so far.
void VariantChoice::add_promising(double enough) {
  std::vector<std::size_t> promising;
  for (std::size_t v = 0; v < all_.size(); ++v) {
    const int number = all_[v].num_micro_batches;
    const double bound = proof_.bound_of(number);
    if (bound > 0 && bound < enough && guesses_.seconds(v) < kInfinity &&
        std::ranges::none_of(variants_, [&](const PlannedVariant& added) {
          return added.variant.num_micro_batches == number;
        }))
      promising.push_back(v);
  }
  std::ranges::stable_sort(promising, {}, [&](std::size_t v) {
    return std::pair(proof_.bound_of(all_[v].num_micro_batches), guesses_.seconds(v));
  });
  const auto same =
      std::ranges::unique(promising, {}, [&](std::size_t v) { return all_[v].num_micro_batches; });
  promising.erase(same.begin(), same.end());
  promising.resize(std::min(promising.size(), kCompileTuning.micro_batches.more_of_large));
  std::vector<PlannedVariant*> added;
  for (const std::size_t v : promising)
    if (PlannedVariant* variant = add(v, true)) added.push_back(variant);
  if (!added.empty()) plan_guesses_of(added);
}

/// On all cores. What fails here fails again when it is asked for.
void VariantChoice::begin_searches() {
  std::vector<StagePlanner*> begun;
  for (const PlannedVariant& variant : variants_)
    if (may_search(variant)) begun.push_back(variant.planner.get());
  ThreadTeam team(usable_cores());
  parallel_work(team, std::ssize(begun), [&](std::int64_t at) {
    try {
      begun[at]->search(budget_);
    } catch (const Error&) {
    }
  });
}

/// When time is over, only what fits if anything does: the last one, unless another has a plan. No
/// search of a large step begins late.
bool VariantChoice::may_search(const PlannedVariant& variant) const {
  if (variant.planner->has_begun()) return true;
  const bool none = std::ranges::none_of(
      variants_, [](const PlannedVariant& v) { return v.best_seconds() < kInfinity; });
  return none ? &variant == &variants_.back() || !has_passed(1)
              : !variant.planner->is_over() &&
                    (!is_large_ || !has_passed(kCompileTuning.micro_batches.guess_share));
}

/// Bounds all variants of a large step, and adds those that may be better than the best stages so
/// far. False: it has done so often enough, or the work or the clock ends.
bool VariantChoice::look_further() {
  const auto& tuning = kCompileTuning.micro_batches;
  const PlannedVariant* best = best_so_far();
  if (!is_large_ || !best || has_passed(1 - tuning.proof_share) || looks_ == tuning.most_looks)
    return false;
  ++looks_;
  prove(best->best_seconds(), tuning.proof_share * method_.work_limit);
  if (proof_.has_begun()) add_promising((1 - method_.options.relative_gap) * best->best_seconds());
  best_found_at_ = method_.watch.work.seconds();
  return true;
}

/// Lower bound on a variant's step, by its search and by the proof.
double VariantChoice::bound_of(const PlannedVariant& variant) const {
  return std::max(variant.bound(), proof_.bound_of(variant.variant.num_micro_batches));
}

/// What no variant of a large step takes less than, most of which are not searched: for so much
/// more work. Searches that find nothing better are closed.
void VariantChoice::prove(double seconds, double work_seconds) {
  const auto& tuning = kCompileTuning.micro_batches;
  // It begins by tracing every number, which there must be room for.
  if (!proof_.has_begun() && (work_seconds < tracing_seconds_ ||
                              method_.clock_left() < tuning.tracings_of_proof * tracing_seconds_))
    return;
  const double enough = (1 - method_.options.relative_gap) * seconds;
  proof_.raise(enough, work_seconds);
  bound_of_all_ = std::max(bound_of_all_, proof_.bound());
  for (PlannedVariant& variant : variants_)
    if (proof_.bound_of(variant.variant.num_micro_batches) >= enough) variant.open = false;
  tell();
}

PlannedVariant& VariantChoice::best() {
  race();
  PlannedVariant* best = best_so_far();
  for (auto at = variants_.begin(); !best && at != variants_.end(); ++at) try {
      if (!at->dropped && may_search(*at)) at->planner->search(budget_).finish(), best = &*at;
    } catch (const Error&) {
      drop(*at);
    }
  if (!best) fail_to_plan();
  set_others_of(*best);
  return *best;
}

double VariantChoice::proven_of_all(double seconds) {
  prove(seconds, kInfinity);
  return std::min(bound_of_all_, seconds);
}

std::vector<PlannedVariant*> VariantChoice::short_of_memory(const PlannedVariant& best) {
  const double most = kCompileTuning.micro_batches.near_by_stage * best.best_seconds();
  std::vector<PlannedVariant*> found;
  for (PlannedVariant& variant : variants_)
    if (variant.best_seconds() <= most &&
        (variant.variant.recomputes || variant.planner->search(budget_).is_memory_bound()))
      found.push_back(&variant);
  std::ranges::stable_sort(found, {}, [](const PlannedVariant* v) { return v->best_seconds(); });
  return found;
}

/// The current exception is why a variant has no plan.
void VariantChoice::note_failure() {
  if (!first_failure_) first_failure_ = std::current_exception();
  try {
    throw;
  } catch (const intra_op::OverBudget& error) {
    why_ = std::min(why_, error.why);
  } catch (const Error&) {  // such as too few rows, or lowering that was late
    if (has_passed(1)) why_ = intra_op::NoPlan::out_of_time;
  }
}

/// "; REASON" if the first failure is proven, such as for the state that a step has.
std::string VariantChoice::proven_failure() const {
  try {
    std::rethrow_exception(first_failure_);
  } catch (const intra_op::OverBudget& error) {
    return error.why == intra_op::NoPlan::proven ? fmt::format("; {}", error.what()) : "";
  } catch (const Error&) {
    return "";
  }
}

/// The first failure stands for all, unless time ended before the others had their turn.
void VariantChoice::fail_to_plan() const {
  using intra_op::NoPlan;
  if (!first_failure_) fail("parallelize: no number of micro-batches is left");
  NoPlan why = why_;
  if (!all_traced_) why = std::min(why, has_passed(1) ? NoPlan::out_of_time : NoPlan::not_found);
  if (why == NoPlan::out_of_time && variants_.size() > 1)
    throw intra_op::OverBudget(
        fmt::format(
            "AutoStages: no stages that fit into {} bytes per device were found in {:.3g} seconds, "
            "in which {} variants of the step were tried (micro-batches, layers computed again); "
            "allow more seconds, choose either, or raise the budget{}",
            budget_, method_.watch.clock.seconds(), variants_.size(), proven_failure()),
        why);
  rethrow(first_failure_, why);
}

/// What is known of the other variants, for the proof of the best one.
void VariantChoice::set_others_of(const PlannedVariant& best) const {
  const double enough = (1 - method_.options.relative_gap) * best.best_seconds();
  double bound = all_traced_ ? kInfinity : 0;
  bool complete = all_traced_;
  for (const PlannedVariant& variant : variants_) {
    if (&variant == &best) continue;
    if (variant.dropped && variant.planner->best_seconds() == kInfinity &&
        why_ != intra_op::NoPlan::out_of_time)
      continue;  // it has no plan
    // More than the least bound so far is of no use.
    if (bound > 0)
      bound = std::min(bound, variant.planner->proven_seconds(std::min(enough, bound)));
    complete = complete && !variant.open;
  }
  best.planner->set_others(bound, complete, bound_of_all_);
}

void VariantChoice::drop(PlannedVariant& variant) {
  if (std::current_exception()) note_failure();
  variant.dropped = true;
  any_plan_ = best_so_far() != nullptr;
  for (PlannedVariant& other : variants_) other.open = !other.dropped;
}

PlannedVariant* VariantChoice::best_so_far() {
  PlannedVariant* best = nullptr;
  for (PlannedVariant& variant : variants_)
    if (variant.best_seconds() < (best ? best->best_seconds() : kInfinity)) best = &variant;
  return best;
}

bool VariantChoice::has_passed(double share_of_time) const {
  return method_.watch.work.seconds() > share_of_time * method_.work_limit || method_.is_over();
}

/// True while equal stages of a large step are planned for guesses: without any plan, whatever the
/// clock says (PlanningTime::rest_for_first_plan).
bool VariantChoice::goes_on_guessing(double share_of_work) {
  if (!is_large_) return false;
  if (best_so_far()) return !has_passed(share_of_work);
  const std::atomic<bool>* stop = method_.options.stop;
  return method_.watch.work.seconds() < first_plan_seconds(method_) && !(stop && *stop);
}

/// Variants with the best guesses, as many as are planned at once, of those that may be better than
/// the best stages so far.
std::vector<PlannedVariant*> VariantChoice::best_guesses() {
  const double best = best_so_far() ? best_so_far()->best_seconds() : kInfinity;
  std::vector<PlannedVariant*> found;
  for (PlannedVariant& variant : variants_)
    if (!variant.dropped && variant.next_guess() < kInfinity && bound_of(variant) < best &&
        kCompileTuning.micro_batches.guess_error * ratio_of_guesses_ * variant.next_guess() < best)
      found.push_back(&variant);
  sort_by_guess(
      found, [](const PlannedVariant* v) { return v->next_guess(); },
      [](const PlannedVariant* v) { return v->variant.recomputes; });
  found.resize(std::min(found.size(), kCompileTuning.micro_batches.searches_at_once));
  return found;
}

/// Plans equal stages that are guessed to be best, of any variant. False: there are none.
bool VariantChoice::plan_next_guesses() {
  const std::vector<PlannedVariant*> next = best_guesses();
  plan_guesses_of(next);
  return !next.empty();
}

/// Plans the best guess of each.
void VariantChoice::plan_guesses_of(const std::vector<PlannedVariant*>& variants) {
  std::vector<double> ratios(variants.size(), kInfinity);
  std::vector<std::exception_ptr> failures(variants.size());
  ThreadTeam team(usable_cores());
  parallel_work(team, std::ssize(variants), [&](std::int64_t at) {
    PlannedVariant& variant = *variants[at];
    const inter_op::StageGuess guess = variant.guesses.back();
    variant.guesses.pop_back();
    try {
      StageSearch& search = variant.planner->search(budget_);
      const double seconds = search.plan_equal(guess.stages, is_large_ ? &any_plan_ : nullptr);
      if (seconds < kInfinity) any_plan_ = true;
      ratios[at] = seconds / guess.seconds;
    } catch (const Error&) {
      failures[at] = std::current_exception();
    }
  });
  for (std::size_t at = 0; at < variants.size(); ++at) try {
      if (failures[at]) std::rethrow_exception(failures[at]);
      ratio_of_guesses_ = std::min(ratio_of_guesses_, ratios[at]);
    } catch (const Error&) {
      drop(*variants[at]);
    }
  tell();
}

/// Replaces first plans of the best variants by plans of all effort, if there is time.
void VariantChoice::plan_best_again() {
  const auto& tuning = kCompileTuning.micro_batches;
  if (has_passed(tuning.guess_share)) return;
  std::vector<PlannedVariant*> best;
  for (PlannedVariant& variant : variants_)
    if (variant.best_seconds() < kInfinity) best.push_back(&variant);
  std::ranges::stable_sort(best, {}, [](const PlannedVariant* v) { return v->best_seconds(); });
  best.resize(std::min(best.size(), tuning.searches_at_once));
  ThreadTeam team(usable_cores());
  parallel_work(team, std::ssize(best), [&](std::int64_t at) {
    try {
      best[at]->planner->search(budget_).plan_best_again();
    } catch (const Error&) {  // the first plans stay
    }
  });
  tell();
}

void VariantChoice::race() {
  // The searches begin with good stages, however little time there is. Of a large step few variants
  // are searched: where one was dropped, the next best guess may win.
  if (!has_begun_ || goes_on_guessing(1))
    while (plan_next_guesses() && goes_on_guessing(kCompileTuning.micro_batches.guess_share)) {
    }
  if (!std::exchange(has_begun_, true)) {
    plan_best_again();
    const PlannedVariant* best = best_so_far();
    if (best && best->graph.nodes.size() <= kCompileTuning.micro_batches.proof_nodes)
      look_further();
    begin_searches();
  }
  ThreadTeam team(usable_cores());
  while (true) {
    const PlannedVariant* best = best_so_far();
    const double cutoff = best ? best->best_seconds() : kInfinity;
    if (cutoff < best_seconds_)
      best_seconds_ = cutoff, best_found_at_ = method_.watch.work.seconds();
    const std::vector<PlannedVariant*> next = next_turns();
    if (next.empty() || (best && is_stuck())) {
      const bool looks = proof_.has_begun() && look_further();
      if (!looks && !(goes_on_guessing(1) && plan_next_guesses())) return;
      continue;
    }
    std::vector<std::exception_ptr> failures(next.size());
    std::vector<double> turns(next.size(), 0);
    parallel_work(team, std::ssize(next), [&](std::int64_t at) {
      const WorkWatch turn;
      try {
        next[at]->open = next[at]->planner->search(budget_).improve(cutoff);
      } catch (const Error&) {  // too large, or of another number than the schedule needs
        failures[at] = std::current_exception();
      }
      turns[at] = turn.seconds();
      next[at]->spent_seconds += turns[at];
    });
    for (std::size_t at = 0; at < next.size(); ++at) try {
        longest_turn_ = std::max(longest_turn_, turns[at]);
        if (failures[at]) std::rethrow_exception(failures[at]);
      } catch (const Error&) {
        drop(*next[at]);
      }
    tell();
  }
}

/// Variants to search next, at once; the same on any number of cores. None if none is open, or
/// turns as long as the longest so far would not end in time.
std::vector<PlannedVariant*> VariantChoice::next_turns() {
  std::vector<PlannedVariant*> turns;
  while (turns.size() < kCompileTuning.micro_batches.searches_at_once) {
    PlannedVariant* const next = most_promising(turns);
    if (!next) break;
    if (may_search(*next))
      turns.push_back(next);
    else
      next->open = all_traced_ = false;
  }
  const double all = static_cast<double>(turns.size()) * longest_turn_;
  const auto is_late = [&](PlannedVariant* variant) {
    try {
      return variant->planner->search(budget_).work_left() <= all;
    } catch (const Error&) {  // fails again in its turn, and is dropped there
      return false;
    }
  };
  if (best_so_far() && std::ranges::any_of(turns, is_late)) turns.clear();
  return turns;
}

/// Whether no better stages were found for so long that more are not to be expected.
bool VariantChoice::is_stuck() const {
  return method_.watch.work.seconds() >
         best_found_at_ + kCompileTuning.micro_batches.patience * method_.work_limit;
}

/// The one with the least bound, as it may have the best stages; null: none is open but `taken`.
/// What has no stages yet may have none that fit: it must not take the time of the others.
PlannedVariant* VariantChoice::most_promising(const std::vector<PlannedVariant*>& taken) {
  const auto is_free = [&](PlannedVariant& v) {
    return v.open && std::ranges::find(taken, &v) == taken.end();
  };
  const bool none = !best_so_far();
  if (none && has_passed(kCompileTuning.micro_batches.until_frugal))
    for (auto at = variants_.rbegin(); at != variants_.rend(); ++at)
      if (is_free(*at)) return &*at;  // of most micro-batches, recomputed: fits if anything does
  double least_spent = kInfinity;
  for (const PlannedVariant& variant : variants_)
    if (variant.open) least_spent = std::min(least_spent, variant.spent_seconds);
  const double most_spent =
      least_spent + kCompileTuning.micro_batches.lead_share * method_.work_limit;
  PlannedVariant* least = nullptr;
  for (PlannedVariant& variant : variants_)
    if (is_free(variant) &&
        (variant.spent_seconds <= most_spent || variant.best_seconds() < kInfinity) &&
        (!least || bound_of(variant) < bound_of(*least)))
      least = &variant;
  return least;
}

void VariantChoice::tell() {
  if (!method_.options.progress) return;
  PlanningProgress all{.lower_bound_seconds = all_traced_ ? kInfinity : 0};
  for (const PlannedVariant& variant : variants_) {
    if (variant.dropped) continue;
    const PlanningProgress now = variant.planner->progress();
    if (now.best_seconds < all.best_seconds)
      all.best_seconds = now.best_seconds, all.stages = now.stages;
    all.lower_bound_seconds = std::min(all.lower_bound_seconds, variant.bound());
    all.elapsed_seconds = std::max(all.elapsed_seconds, now.elapsed_seconds);
    all.seconds_left = std::max(all.seconds_left, now.seconds_left);
    all.searches += now.searches;
    all.ranges += now.ranges;
  }
  all.lower_bound_seconds =
      std::min(std::max(all.lower_bound_seconds, bound_of_all_), all.best_seconds);
  method_.options.progress(all);
}

}  // namespace alpa
