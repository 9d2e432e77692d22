// src/compile/variant_guesses.cc — guesses of all variants, from two traced graphs
#include "variant_guesses.h"

#include <algorithm>
#include <utility>

#include "alpa/base/error.h"
#include "src/base/thread_team.h"
#include "src/base/work.h"
#include "src/search/stages/even_share.h"
#include "trace.h"

namespace alpa {
namespace {

/// The most promising ones last. Of guesses that are equal up to the gap, that of more stages is
/// planned first: each stage has fewer layers.
void sort_for_planning(std::vector<inter_op::StageGuess>& guesses, double relative_gap) {
  std::ranges::stable_sort(guesses, std::ranges::greater(), &inter_op::StageGuess::seconds);
  const double near = inter_op::least_seconds(guesses) / (1 - relative_gap);
  const auto first = std::ranges::find_if(
      guesses, [&](const inter_op::StageGuess& guess) { return guess.seconds <= near; });
  std::sort(first, guesses.end(), [](const auto& a, const auto& b) { return a.stages < b.stages; });
}

}  // namespace

VariantGuesses::VariantGuesses(const std::vector<StepVariant>& variants,
                               const MethodOptions& method, const Cluster& cluster,
                               std::int64_t budget)
    : variants_(variants), method_(method), traced_(variants.size()), guesses_(variants.size()) {
  // The same layers are computed again in every so many variants; the first set is the smallest.
  const auto sets = static_cast<std::size_t>(std::ranges::count(
      variants, variants.front().num_micro_batches, &StepVariant::num_micro_batches));
  const std::size_t last = variants.size() - sets;
  for (std::size_t set = 0; set < sets; ++set) trace(set), trace(last + set);
  // A single number says nothing of other rows, as parts of the batch have them.
  std::vector<std::optional<Graph>> others(sets);
  if (last == 0)
    for (std::size_t set = 0; set < sets; ++set) others[set] = with_other_rows(variants[set]);
  const cost::CostModel model = cost::CostModel::of(cluster);
  ThreadTeam team(usable_cores());
  parallel_work(team, static_cast<std::int64_t>(sets), [&](std::int64_t set) {
    const auto graph_at = [&](std::size_t v) { return traced_[v] ? &*traced_[v] : nullptr; };
    const Graph *few = graph_at(set), *many = others[set] ? &*others[set] : graph_at(last + set);
    if (few && many) try {
        if (few->num_micro_batches > many->num_micro_batches) std::swap(few, many);
        const inter_op::StepNeeds needs(*few, *many, variants[set].recomputes, model);
        for (std::size_t v = set; v < variants.size(); v += sets)
          guesses_[v] = inter_op::guess_stages(
              needs, variants[v].num_micro_batches, schedules_of(method.options), cluster, model,
              budget, {method.options.mesh_shape, method.options.axis_uses});
      } catch (const Error&) {  // too few rows, say: its variants fail in their turn, too
      }
  });
  for (auto& guesses : guesses_) sort_for_planning(guesses, method.options.relative_gap);
  if (traced_.front() && traced_[last])
    bound_ = inter_op::even_share_seconds(*traced_.front(), *traced_[last], cluster.num_devices(),
                                          model);
}

/// The variant's graph at one micro-batch, or at as many as there can be.
std::optional<Graph> VariantGuesses::with_other_rows(const StepVariant& variant) const {
  const std::vector<int> numbers = micro_batch_choices(variant.step);
  const int other = variant.num_micro_batches > 1 ? numbers.front() : numbers.back();
  if (other == variant.num_micro_batches) return std::nullopt;
  try {
    return alpa::trace(variant.step, method_of({variant.step, other}, method_));
  } catch (const Error&) {  // guesses are rougher then
    return std::nullopt;
  }
}

void VariantGuesses::trace(std::size_t variant) {
  try {
    graph(variant);
  } catch (const Error&) {
  }
}

Graph VariantGuesses::take(std::size_t variant) {
  Graph taken = std::move(graph(variant));
  traced_[variant].reset();
  return taken;
}

std::size_t VariantGuesses::nodes() {
  try {
    return graph(variants_.size() - 1).nodes.size();
  } catch (const Error&) {
    return 0;
  }
}

Graph& VariantGuesses::graph(std::size_t variant) {
  std::optional<Graph>& of = traced_[variant];
  if (!of) {
    const PlanningWatch tracing;
    of = alpa::trace(variants_[variant].step, method_of(variants_[variant], method_));
    trace_seconds_ = TraceSeconds(tracing);
  }
  return *of;
}

}  // namespace alpa
