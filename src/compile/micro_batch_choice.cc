// src/compile/micro_batch_choice.cc — the searches of all numbers of micro-batches, in turns
#include "micro_batch_choice.h"

#include <algorithm>
#include <numeric>

#include "alpa/base/error.h"
#include "src/base/infinity.h"
#include "trace.h"
#include "tuning.h"

namespace alpa {

std::vector<int> micro_batch_choices(const TrainingStep& step) {
  std::int64_t rows = 0;
  for (const BatchInput& input : step.inputs)
    if (input.batched) rows = std::gcd(rows, input.type.shape.at(0));
  std::vector<int> choices;
  for (std::int64_t power = 1; power <= std::max<std::int64_t>(rows, 1); power *= 2) {
    std::int64_t divisor = power;
    while (rows % divisor != 0) ++divisor;
    if (choices.empty() || divisor > choices.back()) choices.push_back(static_cast<int>(divisor));
  }
  return choices;
}

MicroBatchChoice::MicroBatchChoice(const TrainingStep& step, const MethodOptions& method,
                                   const Cluster& cluster, std::int64_t budget,
                                   const Stopwatch& watch)
    : method_(method), cluster_(cluster), budget_(budget) {
  for (int number : micro_batch_choices(step)) {
    const double limit = method.options.solver_seconds;
    const bool stopped = method.options.stop && *method.options.stop;
    if (!numbers_.empty() &&
        (stopped || watch.seconds() > kCompileTuning.micro_batches.tracing_share * limit)) {
      all_traced_ = false;
      return;
    }
    MethodOptions own = method;
    own.options.num_micro_batches = number;
    own.options.progress = {};  // of all numbers together
    try {
      Graph graph = trace(step, own);
      check_size(graph, own, cluster);
      numbers_.push_back({std::move(own), std::move(graph)});
      MicroBatchNumber& added = numbers_.back();
      added.planner =
          std::make_shared<StagePlanner>(added.graph, added.method, cluster_, watch.seconds());
    } catch (const Error&) {
      if (!first_failure_) first_failure_ = std::current_exception();
    }
  }
}

MicroBatchNumber& MicroBatchChoice::best() {
  race();
  MicroBatchNumber* best = nullptr;
  for (MicroBatchNumber& number : numbers_)
    if (number.best_seconds() < (best ? best->best_seconds() : kInfinity)) best = &number;
  for (auto at = numbers_.begin(); !best && at != numbers_.end(); ++at) try {
      if (!at->dropped) at->planner->search(budget_).finish(), best = &*at;
    } catch (const Error&) {
      drop(*at);
    }
  if (!best) std::rethrow_exception(first_failure_);
  double others = all_traced_ ? kInfinity : 0;
  for (const MicroBatchNumber& number : numbers_)
    if (&number != best) others = std::min(others, number.bound());
  best->planner->set_others_bound(others);
  return *best;
}

void MicroBatchChoice::drop(MicroBatchNumber& number) {
  if (!first_failure_) first_failure_ = std::current_exception();
  number.dropped = true;
  for (MicroBatchNumber& other : numbers_) other.open = !other.dropped;
}

void MicroBatchChoice::race() {
  while (MicroBatchNumber* next = most_promising()) try {
      double cutoff = kInfinity;
      for (const MicroBatchNumber& number : numbers_)
        cutoff = std::min(cutoff, number.best_seconds());
      StageSearch& search = next->planner->search(budget_);
      if (cutoff < kInfinity && search.progress().seconds_left <= 0) return;
      next->open = search.improve(cutoff);
      tell();
    } catch (const Error&) {  // too large, or of another number than the schedule needs
      drop(*next);
    }
}

/// The one with the least bound, as it may have the best stages; null: none is open.
MicroBatchNumber* MicroBatchChoice::most_promising() {
  MicroBatchNumber* least = nullptr;
  for (MicroBatchNumber& number : numbers_)
    if (number.open && (!least || number.bound() < least->bound())) least = &number;
  return least;
}

void MicroBatchChoice::tell() {
  if (!method_.options.progress) return;
  PlanningProgress all{.lower_bound_seconds = all_traced_ ? kInfinity : 0};
  for (const MicroBatchNumber& number : numbers_) {
    if (number.dropped) continue;
    const PlanningProgress now = number.planner->progress();
    if (now.best_seconds < all.best_seconds)
      all.best_seconds = now.best_seconds, all.stages = now.stages;
    all.lower_bound_seconds = std::min(all.lower_bound_seconds, number.bound());
    all.elapsed_seconds = std::max(all.elapsed_seconds, now.elapsed_seconds);
    all.seconds_left = std::max(all.seconds_left, now.seconds_left);
    all.searches += now.searches;
    all.ranges += now.ranges;
  }
  all.lower_bound_seconds = std::min(all.lower_bound_seconds, all.best_seconds);
  method_.options.progress(all);
}

}  // namespace alpa
