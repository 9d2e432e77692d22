// src/compile/variant_proof.cc — proves what no variant of a step takes less than
#include "variant_proof.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "alpa/base/error.h"
#include "src/base/infinity.h"
#include "src/base/thread_team.h"
#include "stage_planner.h"
#include "trace.h"
#include "tuning.h"

namespace alpa {

/// The proof for a number of micro-batches: of the variant that computes most layers again.
struct VariantProof::Number {
  explicit Number(const StepVariant& of) : variant(of) {}

  void begin(const MethodOptions& of_all, const Cluster& cluster, std::int64_t budget) {
    is_over = of_all.clock_left() <= 0;
    if (is_over) return;
    method = method_of(variant, of_all);
    const PlanningWatch tracing;
    try {
      graph = trace(variant.step, method);
    } catch (const Error&) {  // too few rows, say: it is no variant
      bound = kInfinity;
      return;
    }
    try {
      planner.emplace(graph, method, cluster, TraceSeconds(tracing), of_all.watch.work.seconds());
      step = inter_op::recomputable(graph, cluster.num_devices(), cost::CostModel::of(cluster));
      search = planner->search_for_bounds(step, budget);
    } catch (const Error&) {  // nothing is proven; a search for its stages says why
      is_over = true;
    }
  }

  /// Ends when time is over, to go on when there is more.
  void prove(double enough, double work_seconds, double clock_seconds) {
    search->end_after(work_seconds, clock_seconds);
    is_over = !search->prove(enough) && search->work_left() > 0;
    bound = std::max(bound, search->bound());
  }

  const StepVariant& variant;
  MethodOptions method;
  Graph graph;
  inter_op::RecomputableStep step;
  std::optional<StagePlanner> planner;
  std::unique_ptr<StageSearch> search;
  double bound = 0;
  bool is_over = false;
};

VariantProof::VariantProof(const std::vector<StepVariant>& variants, const MethodOptions& method,
                           const Cluster& cluster, std::int64_t budget)
    : variants_(variants), method_(method), cluster_(cluster), budget_(budget) {}

VariantProof::~VariantProof() = default;

/// On all cores.
void VariantProof::begin() {
  for (auto at = variants_.begin(); at != variants_.end(); ++at)
    if (std::next(at) == variants_.end() ||
        std::next(at)->num_micro_batches != at->num_micro_batches)
      numbers_.push_back(std::make_unique<Number>(*at));
  ThreadTeam team(usable_cores());
  parallel_work(team, std::ssize(numbers_),
                [&](std::int64_t at) { numbers_[at]->begin(method_, cluster_, budget_); });
}

/// Bounds of the same layers with fewer micro-batches hold for more.
void VariantProof::take_bounds() {
  const StageSearch* fewer = nullptr;
  for (const auto& number : numbers_) {
    if (!number->search) continue;
    if (fewer) number->search->take_bounds(*fewer);
    fewer = number->search.get();
  }
}

void VariantProof::raise(double enough, double work_seconds) {
  const WorkWatch watch;
  bool is_first = numbers_.empty();  // its bounds are taken over by the other numbers
  if (is_first) begin();
  ThreadTeam team(usable_cores());
  while (watch.seconds() < work_seconds && method_.clock_left() > 0) {
    std::vector<Number*> next;
    for (const auto& number : numbers_)
      if (number->bound < enough) next.push_back(number.get());
    std::ranges::stable_sort(next, {}, [](const Number* number) { return number->bound; });
    next.resize(std::min(next.size(), kCompileTuning.micro_batches.searches_at_once));
    if (std::exchange(is_first, false) && !next.empty()) next.resize(1);
    // A bound above the least of one that no round is left for is of no use.
    if (next.empty() || next.front()->is_over) return;
    std::erase_if(next, [](const Number* number) { return number->is_over; });
    const double rest = work_seconds - watch.seconds();
    take_bounds();
    parallel_work(team, std::ssize(next),
                  [&](std::int64_t at) { next[at]->prove(enough, rest, method_.clock_left()); });
  }
}

double VariantProof::bound() const {
  double least = numbers_.empty() ? 0 : kInfinity;
  for (const auto& number : numbers_) least = std::min(least, number->bound);
  return least;
}

double VariantProof::bound_of(int num_micro_batches) const {
  for (const auto& number : numbers_)
    if (number->variant.num_micro_batches == num_micro_batches) return number->bound;
  return 0;
}

}  // namespace alpa
