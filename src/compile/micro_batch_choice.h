#pragma once
/// Chooses the number of micro-batches of a step whose stages are searched for. The searches of all
/// numbers take turns: the one with the least bound goes on, until no bound is below the best
/// stages of any number. So most numbers are ruled out by bounds alone.
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <vector>

#include "alpa/train/training_step.h"
#include "method_options.h"
#include "src/base/timing.h"
#include "stage_planner.h"

namespace alpa {

/// Numbers of micro-batches to choose from: the divisors of the batch that are the first at or
/// above a power of two, ascending.
std::vector<int> micro_batch_choices(const TrainingStep& step);

/// A number of micro-batches, with the step's graph for it.
struct MicroBatchNumber {
  MethodOptions method;  ///< with this number
  Graph graph;
  std::shared_ptr<StagePlanner> planner = nullptr;  ///< of `graph`
  bool open = true;                                 ///< its search may go on
  bool dropped = false;                             ///< it has no plan

  double bound() const { return dropped ? kInfinity : planner->bound(); }
  double best_seconds() const { return dropped ? kInfinity : planner->best_seconds(); }
};

class MicroBatchChoice {
 public:
  /// Traces the step with all numbers, as long as there is time. The method's time limit counts
  /// from the start of `watch`, for all numbers together. Arguments must outlive it.
  MicroBatchChoice(const TrainingStep& step, const MethodOptions& method, const Cluster& cluster,
                   std::int64_t budget, const Stopwatch& watch);

  /// The number whose stages take the least predicted seconds, up to the method's relative gap; its
  /// planner knows what the others take at least. Throws, if there is none, what the first number
  /// failed with.
  MicroBatchNumber& best();

  /// `number` has no plan after all: with the current exception.
  void drop(MicroBatchNumber& number);

 private:
  void race();
  MicroBatchNumber* most_promising();
  void tell();

  const MethodOptions& method_;
  const Cluster& cluster_;
  const std::int64_t budget_;
  std::deque<MicroBatchNumber> numbers_;
  bool all_traced_ = true;
  std::exception_ptr first_failure_;
};

}  // namespace alpa
