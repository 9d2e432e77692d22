// src/compile/search.cc — which plans of a step are searched for, and which one is taken
#include "search.h"

#include <algorithm>
#include <exception>
#include <optional>

#include "alpa/base/error.h"
#include "plan_cache.h"
#include "plan_file.h"
#include "remat_by_stage.h"
#include "remat_choice.h"
#include "src/ir/input.h"
#include "trace.h"
#include "tuning.h"
#include "variant_choice.h"

namespace alpa {
namespace {

struct Searched {
  CompiledStep step;
  bool complete = false;  ///< the search ended by itself, at the method's gap in its own count
};

/// The plan that is kept for this search, or else its result, which is kept if it is complete.
CompiledStep cached_or_search(const PlanRequest& request, const Graph& graph,
                              const MethodOptions& method,
                              const std::function<Searched()>& search) {
  const PipeshardParallel& options = method.options;
  if (options.plan_cache_dir.empty()) return search().step;
  const PlanCache cache(options.plan_cache_dir);
  const std::string key = planning_key(graph, method, request.cluster) +
                          (request.step.chooses_remat ? "\nremat auto" : "");
  if (const std::optional<std::string> kept = cache.find(key)) {
    try {
      return plan_from_text(request, *kept, cache.path_of(key));
    } catch (const Error& error) {
      PlanCache::tell_unusable(error.what());
    }
  }
  Searched planned = search();
  if (planned.complete) cache.keep(key, to_json(planned.step));
  return std::move(planned.step);
}

Searched lowered_within_budget(const PlanRequest& request, const Graph& graph, PlanSearch& search) {
  request.log.check("graph.txt", graph);
  try {
    CompiledStep step = fit_budget(
        search, request.budget, [&](Plan plan) { return request.lower(graph, std::move(plan)); });
    const bool complete = search.is_complete(step.plan.cost, request.method.options.relative_gap);
    return {std::move(step), complete};
  } catch (const intra_op::OverBudget& error) {
    const std::string overtime = request.log.overtime();
    if (overtime.empty()) throw;
    throw intra_op::OverBudget(fmt::format("{}; {}", error.what(), overtime),
                               intra_op::NoPlan::out_of_time, error);
  }
}

/// The plan for the method's number of micro-batches, in a share of its seconds.
CompiledStep plan_traced(const PlanRequest& request, const TrainingStep& step, MethodOptions method,
                         double share) {
  const PlanningWatch tracing;
  // A share is a guide: only a step that exceeds the whole is late.
  const double clock_share =
      method.work_limit / request.method.work_limit * request.method.clock_limit;
  request.log.begin_plan(std::max(clock_share, method.clock_limit - method.watch.clock.seconds()));
  const Graph graph = trace(step, method);
  request.log.finished("tracing");
  check_size(graph, method, request.cluster);
  const PlanRequest traced{step, method, request.cluster, request.log, request.lower};
  return cached_or_search(traced, graph, method, [&] {
    MethodOptions limited = method;
    limited.work_limit *= share;
    return lowered_within_budget(
        request, graph,
        *search_for(graph, limited, request.cluster, request.budget, TraceSeconds(tracing)));
  });
}

CompiledStep plan_with(const PlanRequest& request, int num_micro_batches) {
  MethodOptions method = request.method;
  method.options.num_micro_batches = num_micro_batches;
  const double seconds = method.work_limit;
  const double left = std::max(0.0, 1 - method.watch.work.seconds() / seconds);
  if (!request.step.chooses_remat) return plan_traced(request, request.step, method, left);
  return plan_choosing_remat(request.step, num_micro_batches, request.model,
                             [&](const TrainingStep& step, double share) {
                               method.work_limit = share * seconds;
                               return plan_traced(request, step, method, left);
                             });
}

/// The plan of least predicted seconds among those of `choices`, in ascending order, until two in a
/// row are no better or time is over. Throws what the first choice throws if there is no plan.
CompiledStep best_of_micro_batches(const PlanRequest& request, const std::vector<int>& choices) {
  using intra_op::NoPlan;
  std::optional<CompiledStep> best;
  std::exception_ptr first_failure;
  NoPlan why = NoPlan::proven;  // of all failures together
  int worse = 0;
  for (int choice : choices) {
    if (worse == kCompileTuning.micro_batches.worse_in_a_row) break;
    if ((best || first_failure) && request.method.is_over()) {
      why = NoPlan::out_of_time;
      break;
    }
    try {
      CompiledStep next = plan_with(request, choice);
      const double seconds = next.plan.cost.objective_seconds;
      ++worse;
      if (best && seconds >= best->plan.cost.objective_seconds) continue;
      best = std::move(next);
      worse = 0;
    } catch (const Error& error) {  // too large, or too few rows, or late
      if (!first_failure) first_failure = std::current_exception();
      if (const auto* over = dynamic_cast<const intra_op::OverBudget*>(&error))
        why = std::min(why, over->why);
      else if (request.method.is_over())
        why = NoPlan::out_of_time;
    }
  }
  if (!best) rethrow(first_failure, why);
  return *std::move(best);
}

/// Every set of these layers, small ones first.
std::vector<std::vector<int>> all_sets(const std::vector<int>& layers) {
  std::vector<std::vector<int>> sets(std::size_t{1} << layers.size());
  for (std::size_t number = 0; number < sets.size(); ++number)
    for (std::size_t l = 0; l < layers.size(); ++l)
      if (number >> l & 1) sets[number].push_back(layers[l]);
  std::stable_sort(sets.begin(), sets.end(),
                   [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return sets;
}

/// With these numbers of micro-batches, and each of these sets of recomputed layers.
std::vector<StepVariant> variants_of(const TrainingStep& step, const std::vector<int>& numbers,
                                     const std::vector<std::vector<int>>& sets) {
  std::vector<StepVariant> variants;
  for (const int number : numbers)
    for (const std::vector<int>& set : sets)
      variants.push_back({step.chooses_remat ? with_remat(step, set) : step, number, !set.empty()});
  return variants;
}

struct SearchedVariant {
  Searched searched;
  const PlannedVariant* planned = nullptr;

  double seconds() const { return searched.step.plan.cost.objective_seconds; }
};

/// Stages of which some compute `layers` again and others do not, from the best variants on. Only
/// those that take less than the very best stages, the best first.
std::vector<std::unique_ptr<RematByStage>> better_by_stage(const PlanRequest& request,
                                                           VariantChoice& choice,
                                                           const PlannedVariant& best,
                                                           const std::vector<int>& layers) {
  const MethodOptions& method = request.method;
  const WorkWatch watch;
  const double share = kCompileTuning.micro_batches.by_stage_share * method.work_limit,
               most = std::min(share, method.work_limit - method.watch.work.seconds());
  std::vector<std::unique_ptr<RematByStage>> better;
  for (PlannedVariant* of : choice.short_of_memory(best)) {
    if (watch.seconds() >= most || method.is_over()) break;
    try {
      auto found = remat_by_stage(
          {request.step, of->variant, of->method, of->graph, of->planner->search(request.budget)},
          layers, request.cluster, request.budget, most - watch.seconds());
      if (found && found->seconds < best.best_seconds()) better.push_back(std::move(found));
    } catch (const Error&) {  // late: the variant's stages stay
    }
  }
  std::ranges::stable_sort(better, {}, [](const auto& of) { return of->seconds; });
  return better;
}

/// The best stages of the best variant, or better ones of which some compute `layers` again,
/// lowered.
Searched lowered_variant(const PlanRequest& request, VariantChoice& choice, PlannedVariant& best,
                         const std::vector<int>& layers) {
  if (!layers.empty())
    for (const auto& by_stage : better_by_stage(request, choice, best, layers)) try {
        return lowered_within_budget(
            request, by_stage->graph,
            *search_for(by_stage->planner, by_stage->method, request.budget));
      } catch (const Error&) {  // they do not fit when lowered: others may
      }
  return lowered_within_budget(request, best.graph,
                               *search_for(best.planner, best.method, request.budget));
}

/// Stages that are searched for, of the best variant. Lowering may ask for less memory, and so for
/// slower plans, than the search counted: then another variant may be better. `layers`: that stages
/// may compute again whatever the variant does.
SearchedVariant best_variant(const PlanRequest& request, VariantChoice& choice,
                             const std::vector<int>& layers = {}) {
  request.log.finished("tracing and bounding variants");
  std::optional<SearchedVariant> found;
  while (true) {
    PlannedVariant* best = nullptr;
    try {
      best = &choice.best();
    } catch (const Error&) {  // no other is left
      if (!found) throw;
      return *std::move(found);
    }
    const double expected = best->best_seconds();
    if (found && expected >= found->seconds()) return *std::move(found);
    try {
      SearchedVariant next{lowered_variant(request, choice, *best, layers), best};
      if (!found || next.seconds() < found->seconds()) found = std::move(next);
      const auto& tuning = kCompileTuning.micro_batches;
      const bool is_small = best->graph.nodes.size() <= tuning.small_nodes;
      if (found->seconds() <= (is_small ? 1 : tuning.as_expected) * expected)
        return *std::move(found);
    } catch (const Error&) {  // it has no plan after all
      choice.drop(*best);
      continue;
    }
    choice.drop(*best);
  }
}

/// Says of the best variant's plan what is proven of all variants, unless its search has.
void set_bound(VariantChoice& choice, Searched& best) {
  PlanCost& cost = best.step.plan.cost;
  if (best.complete) return;
  cost.lower_bound_seconds =
      std::max(cost.lower_bound_seconds, choice.proven_of_all(cost.objective_seconds));
}

Searched plan_variants(const PlanRequest& request, const std::vector<StepVariant>& variants) {
  VariantChoice choice(variants, request.method, request.cluster, request.budget);
  Searched best = best_variant(request, choice).searched;
  set_bound(choice, best);
  return best;
}

/// The best number of micro-batches, and as few recomputed layers as the budget asks for, if the
/// planner may choose them.
Searched plan_in_stages(const PlanRequest& request, const std::vector<int>& numbers) {
  const TrainingStep& step = request.step;
  request.log.begin_plan(request.method.clock_limit);
  if (!step.chooses_remat) return plan_variants(request, variants_of(step, numbers, {{}}));
  const auto& tuning = kCompileTuning.micro_batches;
  const Graph graph = trace(step, numbers.front());
  const std::vector<int> layers = remat_layers(graph);
  if (layers.size() <= tuning.few_layers && graph.nodes.size() <= tuning.small_nodes)
    return plan_variants(request, variants_of(step, numbers, all_sets(layers)));
  const std::vector<int> order =
      layers_worth_recomputing(step, layers, numbers.front(), request.model);
  MethodOptions method = request.method;
  const bool is_large = graph.nodes.size() > tuning.large_nodes;
  method.work_limit *= is_large ? 1 - tuning.by_stage_share : tuning.remat_share;
  std::vector<std::vector<int>> sets = {{}};  // none and all
  if (!order.empty()) {
    sets.push_back(order);
    std::sort(sets.back().begin(), sets.back().end());
  }
  // Guesses choose among the variants of a large step; those of others share the time.
  const bool is_free = is_large && numbers.size() > 1;
  const std::vector<StepVariant> variants =
      variants_of(step, is_free ? micro_batch_choices(step, /*finer=*/true) : numbers, sets);
  VariantChoice choice(variants, method, request.cluster, request.budget);
  std::optional<SearchedVariant> found;
  try {
    found = best_variant(request, choice, is_large ? sets.back() : std::vector<int>());
  } catch (const intra_op::OverBudget&) {  // neither none nor all: such sets have not been tried
    rethrow(std::current_exception(),
            order.size() > 1 ? intra_op::NoPlan::not_found : intra_op::NoPlan::proven);
  }
  SearchedVariant& best = *found;
  const StepVariant& variant = best.planned->variant;
  if (!variant.recomputes) {
    set_bound(choice, best.searched);
    return std::move(best.searched);
  }
  const double limit = request.method.work_limit, begin = request.method.watch.work.seconds();
  CompiledStep fewest = std::move(best.searched.step);
  if (!is_large)  // others were chosen by stage
    fewest = with_fewest_recomputed(
        step, order, std::move(fewest),
        [&](const TrainingStep& fewer, double share) {
          MethodOptions own = request.method;
          own.options.num_micro_batches = variant.num_micro_batches;
          own.work_limit = share * (limit - begin);
          return plan_traced(request, fewer, own, 1);
        },
        [&] { return request.method.is_over(); });
  // The bound of its own search is one for the layers that it computes again.
  Plan& plan = fewest.plan;
  plan.variant_bound_seconds = std::max(plan.variant_bound_seconds, plan.cost.lower_bound_seconds);
  plan.cost.lower_bound_seconds = choice.proven_of_all(plan.cost.objective_seconds);
  return {std::move(fewest)};
}

/// The best plan, of the step as it is.
CompiledStep best_plan(const PlanRequest& request) {
  const MethodOptions& method = request.method;
  const auto given = method.options.num_micro_batches;
  const bool searches = searches_stages(method);
  if (given && !searches) return plan_with(request, *given);
  const std::vector<int> choices = given ? std::vector{*given} : micro_batch_choices(request.step);
  if (!searches) return best_of_micro_batches(request, choices);
  const auto search = [&] { return plan_in_stages(request, choices); };
  if (method.options.plan_cache_dir.empty()) return search().step;
  return cached_or_search(request, trace(request.step, choices.front()), method, search);
}

/// The same, where micro-batches convert parameters or read copies that are kept.
CompiledStep best_plan(const PlanRequest& request, bool keeps_copies) {
  TrainingStep step = request.step;
  step.keeps_copies = keeps_copies;
  return best_plan({step, request.method, request.cluster, request.log, request.lower,
                    request.budget, request.model});
}

}  // namespace

void check_devices(const Plan& plan, const Cluster& cluster, const std::string& path) {
  std::map<int, const std::vector<int>*> mesh_of;  // by device
  for (const StagePlan& stage : plan.stages)
    for (int device : stage.plan.mesh.devices()) {
      const auto [known, added] = mesh_of.emplace(device, &stage.plan.mesh.devices());
      require(*known->second == stage.plan.mesh.devices(),
              "plan file {}: stage {} is on device {}, which another stage uses together with "
              "other devices; plan the step again",
              path, &stage - plan.stages.data(), device);
    }
  const auto devices = static_cast<int>(mesh_of.size());
  const bool serial = plan.method == "serial" && devices == 1;
  require(devices == cluster.num_devices() || serial,
          "plan file {}: the plan is for {} devices (mesh {}), but the cluster has {}", path,
          devices, meshes_text(plan), cluster.num_devices());
  for (const StagePlan& stage : plan.stages)
    for (std::size_t d = 0; d < stage.plan.mesh.devices().size(); ++d)
      require(stage.plan.mesh.devices()[d] < cluster.num_devices(),
              "plan file {}: mesh.devices[{}]: found {}; the cluster has devices 0 to {}", path, d,
              stage.plan.mesh.devices()[d], cluster.num_devices() - 1);
}

namespace {

/// Whether copies of parameters in half precision are kept.
enum class Copies : std::uint8_t {
  none,       ///< no layer reads parameters in half precision
  fit,        ///< they take little of the memory
  too_large,  ///< beside state and sums of gradients, little else would fit
};

/// By an even share of a step's bytes on the devices of the cluster.
Copies copies_of(const TrainingStep& step, const MethodOptions& method, const Cluster& cluster) {
  const std::optional<int>& given = method.options.num_micro_batches;
  const Graph graph = trace(step, given ? *given : micro_batch_choices(step).back());
  if (copies_by_state(graph).empty()) return Copies::none;
  const auto kept = static_cast<double>(bytes_of(graph, InputKind::state) +
                                        bytes_of(graph, InputKind::accumulator));
  const double room = static_cast<double>(memory_budget(method, cluster)) * cluster.num_devices();
  return kept <= kCompileTuning.copies.most_share * room ? Copies::fit : Copies::too_large;
}

}  // namespace

CompiledStep search_plan(const PlanRequest& request) {
  if (!request.step.keeps_copies) return best_plan(request, false);
  const Copies copies = copies_of(request.step, request.method, request.cluster);
  if (copies == Copies::too_large) return best_plan(request, false);
  try {
    return best_plan(request, true);
  } catch (intra_op::OverBudget& error) {
    const bool late =
        copies != Copies::none && request.method.is_over();  // for a plan without copies
    if (late) error.why = intra_op::NoPlan::out_of_time;
    if (late || copies == Copies::none) throw;
  }
  return best_plan(request, false);
}

CompiledStep plan_from_text(const PlanRequest& request, const std::string& text,
                            const std::string& path) {
  const TrainingStep step = with_remat_of_file(request.step, text, path);
  CompiledStep read = plan_from_json(text, step, request.method.options.num_micro_batches, path);
  check_devices(read.plan, request.cluster, path);
  if (request.method.options.shard_optimizer_state)
    for (const StagePlan& stage : read.plan.stages)
      require_sharded_state(stage.plan, stage.graph, path);
  const CompiledStep planned =
      request.lower(request.log.check("graph.txt", std::move(read.graph)), std::move(read.plan));
  require(planned.memory_bytes <= request.budget,
          "plan file {}: the plan needs {} bytes per device, {} more than the memory budget of {}; "
          "plan again within it, or raise the budget",
          path, planned.memory_bytes, planned.memory_bytes - request.budget, request.budget);
  return planned;
}

}  // namespace alpa
