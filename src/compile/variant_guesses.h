#pragma once
/// Guesses at equal stages of every variant of a step, and the graphs that are traced for them. One
/// thread.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "alpa/mesh/cluster.h"
#include "src/search/stages/stage_guess.h"
#include "stage_planner.h"
#include "step_variant.h"

namespace alpa {

class VariantGuesses {
 public:
  /// Traces the fewest and the most micro-batches. Arguments but `cluster` must outlive this.
  VariantGuesses(const std::vector<StepVariant>& variants, const MethodOptions& method,
                 const Cluster& cluster, std::int64_t budget);

  /// Traces a variant before `take` asks for it. An Error is left to `take`, which traces again.
  void trace(std::size_t variant);

  /// The variant's graph, once. Throws Error if it cannot be traced: too few rows, say.
  Graph take(std::size_t variant);

  /// Equal stages of a variant, the most promising ones last.
  const std::vector<inter_op::StageGuess>& of(std::size_t variant) const {
    return guesses_[variant];
  }
  /// The least guess of a variant; infinite: no equal stages are guessed to fit.
  double seconds(std::size_t variant) const { return inter_op::least_seconds(guesses_[variant]); }
  /// Lower bound on every variant, in seconds: devices share its operators evenly.
  double bound() const { return bound_; }

  /// Seconds that tracing the last graph took.
  const TraceSeconds& trace_seconds() const { return trace_seconds_; }

  /// Nodes of the last variant's graph, which has most; 0: it cannot be traced.
  std::size_t nodes();

 private:
  Graph& graph(std::size_t variant);
  std::optional<Graph> with_other_rows(const StepVariant& variant) const;

  const std::vector<StepVariant>& variants_;
  const MethodOptions& method_;
  std::vector<std::optional<Graph>> traced_;
  std::vector<std::vector<inter_op::StageGuess>> guesses_;
  double bound_ = 0;
  TraceSeconds trace_seconds_;
};

}  // namespace alpa
