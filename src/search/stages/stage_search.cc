// src/search/stages/stage_search.cc — searches for stages, and prices what the search asks for
#include "src/search/stages/stage_search.h"

#include <algorithm>
#include <set>

#include "alpa/base/error.h"
#include "src/plan/evaluation/stage_seconds.h"
#include "src/plan/schedules/schedule.h"
#include "src/search/bound/step_bound.h"
#include "src/search/stages/cut_prices.h"
#include "src/search/tuning.h"

namespace alpa {

namespace {

bool are_equal(const FoundStages& a, const inter_op::StagePartition& partition, int schedule) {
  return a.schedule == schedule && inter_op::have_equal_cuts(a.partition, partition);
}

/// Those that need not be planned again.
std::vector<inter_op::StagePartition> partitions_of(const std::vector<FoundStages>& stages) {
  std::vector<inter_op::StagePartition> partitions;
  for (const FoundStages& of : stages)
    if (!of.has_first_plans) partitions.push_back(of.partition);
  return partitions;
}

}  // namespace

struct StageSearch::Impl {
  Impl(StageSearchSpace question, const PlanningContext& planning)
      : question_(std::move(question)),
        options_(planning.options),
        quiet_(of_ranges(planning.options)),
        planning_{planning.model, quiet_, planning.cache},
        costs_(
            question_.graph, question_.cluster,
            {question_.budget, question_.submeshes, question_.mesh_shapes, question_.recomputable},
            planning_),
        cuts_(question_.graph, costs_.ranges().staged(), question_.cluster, costs_.parts()) {}

  /// Options of the searches of ranges: short rounds.
  static intra_op::AutoShardOptions of_ranges(intra_op::AutoShardOptions options) {
    options.progress = {};
    options.explain = false;
    options.limits.effort = search::kTuning.stage_search.effort;
    options.limits.least_gain = search::kTuning.stage_search.least_gain;
    return options;
  }

  /// Schedules that may differ: one for a single stage.
  int num_schedules(const inter_op::StagePartition& partition) const {
    return partition.stages.size() == 1 ? 1 : static_cast<int>(question_.schedules.size());
  }

  int in_flight(int schedule, int stages_after) const {
    const int most_stages = std::min(costs_.ranges().layers(), question_.cluster.num_devices());
    return pipeline::most_in_flight(question_.schedules[schedule], stages_after, most_stages,
                                    micro_batches());
  }

  /// Numbers of micro-batches in flight that stages may be asked for, ascending.
  std::vector<int> all_in_flight() const {
    std::set<int> all;
    for (int schedule = 0; schedule < static_cast<int>(question_.schedules.size()); ++schedule)
      for (int after = 0; after < question_.cluster.num_devices(); ++after)
        if (after < costs_.ranges().layers()) all.insert(in_flight(schedule, after));
    return {all.begin(), all.end()};
  }

  int micro_batches() const { return question_.graph.num_micro_batches; }

  /// The stages that take least under the bounds. What is not known of them is found out: first
  /// bounds of their own, then plans.
  bool improve(double cutoff) {
    if (costs_.parts().empty() || costs_.time().is_over()) return false;
    const double goal = enough(std::min(cutoff, best_seconds()));
    const inter_op::PartitionCosts costs = table(RangeCosts::Ask::least);
    LeastStages least = least_stages(costs, goal);
    if (bounds_schedules_ && !is_memory_bound()) bound_ = std::max(bound_, least.seconds);
    tell();
    const FoundStages* before = planned_before(least.stages, 0);
    if (before && !before->has_first_plans)
      least = least_stages(costs, goal, partitions_of(planned_));
    is_complete_ = least.seconds >= goal;
    if (is_complete_) return false;
    if (!std::exchange(has_begun_, true)) return true;  // other searches may have lower bounds
    if (least.stages.stages.empty()) return false;      // its time is over
    const std::vector<RangeQuery> queries = queries_of(least.stages, least.schedule);
    return bound(queries) || consider(least.stages, cutoff);
  }

  bool is_memory_bound() const {
    return std::ranges::any_of(graphs_,
                               [](const RangeCosts* costs) { return costs->is_memory_bound(); });
  }

  /// Bounds of these ranges. False: no better ones are left.
  bool bound(const std::vector<RangeQuery>& queries) {
    bool any = false;
    for (std::size_t g = 0; g < graphs_.size(); ++g) {
      std::vector<RangeQuery> own;
      std::ranges::copy_if(queries, std::back_inserter(own), [&](const RangeQuery& query) {
        return query.graph == static_cast<int>(g);
      });
      const bool more = graphs_[g]->bound(own);
      if (costs_.ranges().layers() > search::kTuning.stage_search.many_layers)
        while (more && graphs_[g]->bound(own)) {  // a round takes longer than bounds do
        }
      any |= more;
    }
    return any;
  }

  /// The stages of the least bound, under the schedule that it is least for.
  struct LeastStages : inter_op::StepBound {
    int schedule = 0;
  };

  /// Costs of ranges of any graph.
  template <class Costs>
  inter_op::PartitionCosts of_all_graphs(const Costs& costs_of_graph) {
    inter_op::PartitionCosts costs = costs_of_graph(costs_);
    for (std::size_t g = 1; g < graphs_.size(); ++g)
      costs = inter_op::either(costs, costs_of_graph(*graphs_[g]));
    return costs;
  }

  inter_op::PartitionCosts table(RangeCosts::Ask ask) {
    return of_all_graphs([&](RangeCosts& costs) { return costs.table(ask, all_in_flight()); });
  }

  std::optional<FoundStages> mixed_with(Impl& other, double work_seconds, double clock_seconds) {
    const bool is_like =
        costs_.ranges().are_like(other.costs_.ranges()) && costs_.parts() == other.costs_.parts();
    if (!best_ || !is_like) return std::nullopt;
    const Mixing mixing(*this, other.costs_);
    for (RangeCosts* costs : graphs_) costs->end_after(work_seconds, clock_seconds);
    const std::atomic<bool> any_plan = true;
    begin_first_plans(&any_plan);
    // By its last stage, all others of that graph are estimated.
    const int last = static_cast<int>(best_->partition.stages.size()) - 1;
    for (const RangeQuery& query : all_queries(best_->partition, 0, last))
      costs_of(query).plan(query, effort_);
    const double before = best_->seconds;
    consider(inter_op::StagePartition(best_->partition));
    while (improve_by_estimates()) {
    }
    effort_ = {};
    plan_best_again();
    return best_seconds() < before ? std::optional(with_plans(*best_)) : std::nullopt;
  }

  /// While it lives, stages may be ranges of another graph. The best stages before stay.
  struct Mixing {
    Mixing(Impl& of, RangeCosts& other)
        : impl(of), best(of.best_), planned(std::move(of.planned_)) {
      impl.planned_.clear();
      impl.graphs_.push_back(&other);
      impl.estimates_ = true;
    }
    ~Mixing() {
      impl.estimates_ = false;
      impl.effort_ = {};
      impl.graphs_.pop_back();
      impl.best_ = best;
      impl.planned_ = std::move(planned);
    }
    Mixing(const Mixing&) = delete;
    Mixing& operator=(const Mixing&) = delete;

    Impl& impl;
    const std::optional<FoundStages> best;
    std::vector<FoundStages> planned;
  };

  /// Plans the stages that are expected to take least. False: they take no less than the best ones,
  /// or time is over.
  bool improve_by_estimates() {
    if (costs_.time().is_over()) return false;
    const double goal = enough(best_seconds());
    const std::vector<int> in_flight = all_in_flight();
    const LeastStages least =
        least_stages(of_all_graphs([&](RangeCosts& costs) { return costs.estimates(in_flight); }),
                     goal, partitions_of(planned_));
    return !least.stages.stages.empty() && consider(least.stages);
  }

  /// Lower bounds on the runs of a stage of any graph.
  inter_op::LeastRuns least_runs(int first, int last, int part) const {
    inter_op::LeastRuns least{kInfinity, kInfinity};
    for (const RangeCosts* costs : graphs_) {
      const auto runs = costs->least_runs(costs->ranges().class_of(first, last), part);
      least.forward = std::min(least.forward, runs.forward);
      least.backward = std::min(least.backward, runs.backward);
    }
    return least;
  }

  LeastStages least_stages(const inter_op::PartitionCosts& costs, double enough,
                           const std::vector<inter_op::StagePartition>& known = {},
                           double most_work = search::kTuning.step_bound.most_work) {
    LeastStages least{{kInfinity, {}}};
    // The last schedules keep most in flight, so their bounds are the least.
    for (int s = static_cast<int>(question_.schedules.size()) - 1; s >= 0; --s) {
      inter_op::StepBound bound = inter_op::step_bound(
          {.cluster = {question_.cluster.num_hosts, question_.cluster.devices_per_host},
           .submeshes = costs_.parts(),
           .costs = costs,
           .runs = [this](int first, int last, int part) { return least_runs(first, last, part); },
           .micro_batches = micro_batches(),
           .schedule = question_.schedules[s],
           .in_flight = [this, s](int after) { return in_flight(s, after); },
           .transfer_seconds =
               [this](int layer, int before, int after) {
                 return cuts_.least(layer, before, after).per_micro_batch;
               },
           .hides_gradients = question_.cluster.software.gradient_overlap > 0,
           .known = known,
           .enough = std::min(enough, least.seconds),
           .most_work = most_work,
           .is_over = [this] { return costs_.time().is_over(); }});
      if (bound.seconds < least.seconds) least = {std::move(bound), s};
    }
    return least;
  }

  /// What may take less than `enough` is bounded better: first all layers, then the ranges of the
  /// least stages.
  bool prove(double enough) {
    if (!bounds_schedules_) return false;
    if (!std::exchange(has_proven_, true))
      for (RangeCosts* costs : graphs_) costs->bound_layers(enough / micro_batches());
    const LeastStages least =
        least_stages(table(RangeCosts::Ask::proven), enough, {}, work_of_proof_);
    bound_ = std::max(bound_, least.seconds);
    if (bound_ >= enough || costs_.time().is_over()) return false;
    if (!least.stages.stages.empty()) return bound(queries_of(least.stages, least.schedule));
    work_of_proof_ *= 4;  // too few to find any stages
    return work_of_proof_ < search::kTuning.step_bound.most_work_of_proof;
  }

  /// The same, for a while.
  double proven_seconds(double enough) {
    const WorkWatch watch;
    const double most = search::kTuning.stage_search.proof_share * options_.limits.seconds;
    while (prove(enough) && watch.seconds() < most) {
    }
    return bound_;
  }

  FoundStages* planned_before(const inter_op::StagePartition& partition, int schedule) {
    const auto found = std::find_if(
        planned_.begin(), planned_.end(),
        [&](const FoundStages& planned) { return are_equal(planned, partition, schedule); });
    return found == planned_.end() ? nullptr : &*found;
  }

  FoundStages finish() {
    returned_.clear();
    while (!best_ && !costs_.time().is_long_over() && consider_best_template()) {
    }
    if (!best_) fail_to_fit();
    best_->is_complete = is_complete_;
    // A little more than what is enough is within the gap, however it is rounded.
    proven_seconds(enough(best_seconds()) * (1 + 1e-9));
    best_->lower_bound = std::min(bound_, best_seconds());
    tell();
    return returned(*best_);
  }

  std::optional<FoundStages> other(double seconds) {
    if (returned_.size() > search::kTuning.stage_search.others) return std::nullopt;
    return best_planned(seconds, [&](const FoundStages& of) {
      return std::none_of(returned_.begin(), returned_.end(), [&](const FoundStages& known) {
        return are_equal(known, of.partition, of.schedule);
      });
    });
  }

  std::optional<FoundStages> with_fewest_in_flight(double seconds) {
    return best_planned(seconds, [](const FoundStages& of) { return of.schedule == 0; });
  }

  template <class Wanted>
  std::optional<FoundStages> best_planned(double seconds, const Wanted& is_wanted) {
    const FoundStages* best = nullptr;
    for (const FoundStages& of : planned_)
      if (of.seconds < (best ? best->seconds : seconds) && is_wanted(of)) best = &of;
    return best ? std::optional(returned(*best)) : std::nullopt;
  }

  FoundStages returned(const FoundStages& found) {
    returned_.push_back(found);
    return with_plans(found);
  }

  FoundStages with_plans(FoundStages found) {
    for (const RangeQuery& query : planned_queries(found.partition, found.schedule)) {
      found.plans.push_back(costs_of(query).found_plan(query));
      found.graphs.push_back(query.graph);
    }
    return found;
  }

  /// The template whose slowest stage takes least, of those that may be better than the best
  /// stages; small ones last, as they pass on most. False: there is none.
  bool consider_best_template() {
    std::size_t best = question_.templates.size();
    double least = best_seconds();
    for (std::size_t t = 0; t < question_.templates.size(); ++t)
      if (const double seconds = considered_[t] ? kInfinity : busiest(question_.templates[t]);
          seconds < least)
        best = t, least = seconds;
    if (best == question_.templates.size()) return false;
    consider_template(best);
    return true;
  }

  /// What the slowest stage takes, so far as is known; infinite: it does not fit the memory, or is
  /// not allowed.
  double busiest(const inter_op::StagePartition& partition) {
    if (!is_allowed(partition)) return kInfinity;
    double slowest = 0;
    for (const RangeQuery& query : queries_of(partition, 0))
      slowest = std::max(slowest, costs_of(query).seconds(query));
    return micro_batches() * slowest;
  }

  void consider_template(std::size_t number) {
    considered_[number] = true;
    consider(question_.templates[number]);
  }

  /// `any_plan`: null for plans of all effort.
  void begin_first_plans(const std::atomic<bool>* any_plan) {
    effort_ = {.memory_share = search::kTuning.stage_search.memory_share_of_equal,
               .first_plan = any_plan != nullptr};
    any_plan_ = any_plan;
  }

  double plan_equal(int stages, const std::atomic<bool>* any_plan) {
    begin_first_plans(any_plan);
    double seconds = kInfinity;
    for (std::size_t t = 0; t < question_.templates.size(); ++t) {
      const inter_op::StagePartition& partition = question_.templates[t];
      if (std::ssize(partition.stages) != stages || !is_allowed(partition)) continue;
      if (!considered_[t]) consider_template(t);
      for (int schedule = 0; schedule < num_schedules(partition); ++schedule)
        if (const FoundStages* found = planned_before(partition, schedule))
          seconds = std::min(seconds, found->seconds);
    }
    effort_ = {};
    return seconds;
  }

  void plan_best_again() {
    if (best_ && best_->has_first_plans) consider(inter_op::StagePartition(best_->partition));
  }

  double best_seconds() const { return best_ ? best_->seconds : kInfinity; }

  bool is_allowed(const inter_op::StagePartition& partition) const {
    const auto& parts = costs_.parts();
    return std::all_of(partition.stages.begin(), partition.stages.end(), [&](const auto& stage) {
      return std::find(parts.begin(), parts.end(), stage.submesh) != parts.end();
    });
  }

  [[noreturn]] void fail_to_fit() {
    const bool none = !costs_.time().is_over() &&
                      least_stages(table(RangeCosts::Ask::proven), kInfinity).seconds == kInfinity;
    const bool late = costs_.time().is_over(), any_shape = question_.mesh_shapes.empty();
    const std::string fit = fmt::format(
        "AutoStages: no stages of {} layers{} fit into {} bytes per device",
        costs_.ranges().layers(),
        any_shape
            ? ""
            : fmt::format(" with the logical mesh shapes that are allowed tile {} devices and",
                          question_.cluster.num_devices()),
        question_.budget);
    throw intra_op::OverBudget(
        late ? fmt::format("{}, of those found in {:.3g} seconds; allow more seconds, give more "
                           "layers or devices, or raise the budget",
                           fit, costs_.time().elapsed())
             : fmt::format("{}{}; {}, or raise the memory budget", fit,
                           none ? "" : ", of those found",
                           any_shape ? "give more layers or devices" : "allow more shapes"),
        late   ? intra_op::NoPlan::out_of_time
        : none ? intra_op::NoPlan::proven
               : intra_op::NoPlan::not_found);
  }

  double enough(double seconds) const { return (1 - options_.limits.relative_gap) * seconds; }

  RangeCosts& costs_of(const RangeQuery& query) { return *graphs_[query.graph]; }

  /// A stage as a range of each graph.
  std::vector<RangeQuery> all_queries(const inter_op::StagePartition& partition, int schedule,
                                      int number) const {
    const inter_op::Stage& stage = partition.stages[number];
    const int stages = static_cast<int>(partition.stages.size());
    const auto part = std::find(costs_.parts().begin(), costs_.parts().end(), stage.submesh);
    invariant(part != costs_.parts().end(), "AutoStages: submesh {} is none of the choices",
              stage.submesh);
    // One stage alone runs forward and backward after each other.
    const int kept = stages == 1 ? 1 : in_flight(schedule, stages - number - 1);
    std::vector<RangeQuery> queries;
    for (int graph = 0; graph < std::ssize(graphs_); ++graph)
      queries.push_back({graphs_[graph]->ranges().class_of(stage.first_layer, stage.last_layer),
                         static_cast<int>(part - costs_.parts().begin()), kept, graph});
    return queries;
  }

  /// Per stage, the range of the graph that takes the least seconds.
  template <class Seconds>
  std::vector<RangeQuery> least_queries(const inter_op::StagePartition& partition, int schedule,
                                        const Seconds& seconds) const {
    std::vector<RangeQuery> queries;
    for (int stage = 0; stage < std::ssize(partition.stages); ++stage)
      queries.push_back(
          std::ranges::min(all_queries(partition, schedule, stage), std::less(), seconds));
    return queries;
  }

  /// By what is known of the ranges.
  std::vector<RangeQuery> queries_of(const inter_op::StagePartition& partition, int schedule) {
    return least_queries(partition, schedule, [this](const RangeQuery& query) {
      RangeCosts& costs = costs_of(query);
      const double planned = costs.planned_seconds(query);
      return planned < kInfinity ? planned
             : estimates_        ? costs.estimated_seconds(query)
                                 : costs.seconds(query);
    });
  }
  /// By plans alone.
  std::vector<RangeQuery> planned_queries(const inter_op::StagePartition& partition, int schedule) {
    return least_queries(partition, schedule, [this](const RangeQuery& query) {
      return costs_of(query).planned_seconds(query);
    });
  }

  /// Plans the stages, and keeps them if they are the best, under every schedule that may be
  /// better. A single one need not be planned well that is above the cutoff. False: all were
  /// planned before.
  bool consider(const inter_op::StagePartition& partition, double cutoff = kInfinity) {
    bool any = consider(partition, 0, cutoff);
    for (int schedule = 1; schedule < num_schedules(partition); ++schedule)
      if (may_be_better(partition, schedule)) any |= consider(partition, schedule, cutoff);
    return any;
  }

  /// Than the best stages, if more micro-batches in flight ask for no other plans than the fewest.
  bool may_be_better(const inter_op::StagePartition& partition, int schedule) {
    const FoundStages* fewest = planned_before(partition, 0);
    if (effort_.first_plan &&
        !std::ranges::all_of(planned_queries(partition, schedule), [&](const RangeQuery& query) {
          return costs_of(query).planned_seconds(query) < kInfinity;
        }))
      return false;  // plans with less memory are mostly slower, and take long
    return fewest && played(partition, 0, schedule) < best_seconds();
  }

  bool consider(const inter_op::StagePartition& partition, int schedule, double cutoff) {
    RangeCosts::Effort effort = effort_;
    if (partition.stages.size() == 1) effort.cutoff_seconds = enough(cutoff);
    if (schedule != 0) effort.memory_share = search::kTuning.stage_search.memory_share;
    bool any = false, all_fit = true;
    for (std::size_t s = 0; all_fit && s < partition.stages.size(); ++s) {
      const auto planned = [&] {
        const RangeQuery query = queries_of(partition, schedule)[s];
        effort.outlasts_clock = effort.first_plan && !*any_plan_;
        return costs_of(query).plan(query, effort);
      };
      while (planned()) any = true;  // then another graph's range may take less
      const RangeQuery query = planned_queries(partition, schedule)[s];
      all_fit = costs_of(query).planned_seconds(query) < kInfinity;
    }
    const double seconds = all_fit ? played(partition, schedule, schedule) : kInfinity;
    const FoundStages found{.partition = partition,
                            .schedule = schedule,
                            .seconds = seconds,
                            .has_first_plans = effort.first_plan};
    if (FoundStages* before = planned_before(partition, schedule)) {
      before->seconds = std::min(before->seconds, seconds);
      before->has_first_plans &= effort.first_plan;
    } else if (any |= all_fit; all_fit) {
      planned_.push_back(found);
    }
    if (seconds < best_seconds()) {
      best_ = found;
      tell();
    }
    return any;
  }

  /// By the schedule, of stages that are planned for the micro-batches in flight of schedule
  /// `planned_for`.
  double played(const inter_op::StagePartition& partition, int planned_for, int schedule) {
    const std::vector<RangeQuery> queries = planned_queries(partition, planned_for);
    std::vector<StageSeconds> stages;
    for (const RangeQuery& query : queries) stages.push_back(*costs_of(query).planned_parts(query));
    std::vector<double> transfers;
    const std::vector<int> hosts = inter_op::hosts_of(
        {question_.cluster.num_hosts, question_.cluster.devices_per_host}, partition);
    for (std::size_t s = 1; s < queries.size(); ++s) {
      const CutSeconds cut =
          cuts_.least(partition.stages[s].first_layer, queries[s - 1].part, queries[s].part,
                      hosts[s] >= 0 && hosts[s - 1] == hosts[s]);
      transfers.push_back(cut.per_micro_batch);
      // What crosses the last cut once per step ends at the last stage. What comes back over the
      // first one ends at the first stage.
      if (s + 1 == queries.size()) stages.back().apply += cut.per_step / 2;
      if (s == 1) stages.front().apply += cut.per_step / 2;
    }
    return played_seconds(question_.schedules[schedule], micro_batches())(stages, transfers);
  }

  PlanningProgress progress() const {
    PlanningProgress now{.lower_bound_seconds = bound_, .elapsed_seconds = costs_.time().elapsed()};
    now.best_seconds = best_seconds();
    if (best_) now.stages = static_cast<int>(best_->partition.stages.size());
    now.lower_bound_seconds = std::min(now.lower_bound_seconds, now.best_seconds);
    now.searches = costs_.num_searches();
    now.ranges = costs_.num_ranges();
    now.seconds_left = costs_.time().clock_left();
    return now;
  }

  void tell() const {
    if (options_.progress) options_.progress(progress());
  }

  const StageSearchSpace question_;
  const intra_op::AutoShardOptions& options_;
  const intra_op::AutoShardOptions quiet_;  ///< for the searches of ranges
  const PlanningContext planning_;
  RangeCosts costs_;
  std::vector<RangeCosts*> graphs_ = {&costs_};  ///< whose ranges stages may be
  const CutPrices cuts_;
  /// If reductions hide in part, that part takes no time at all in a schedule, but in a bound.
  const bool bounds_schedules_ = question_.cluster.software.gradient_overlap <= 0 ||
                                 question_.cluster.software.gradient_overlap >= 1;
  double bound_ = 0;
  RangeCosts::Effort effort_;                    ///< of the next ranges
  const std::atomic<bool>* any_plan_ = nullptr;  ///< of plan_equal
  std::vector<bool> considered_ = std::vector<bool>(question_.templates.size());  ///< templates
  bool estimates_ = false;  ///< what is not planned
  bool has_begun_ = false, has_proven_ = false, is_complete_ = false;
  double work_of_proof_ = search::kTuning.step_bound.first_work_of_proof;  ///< labels
  std::optional<FoundStages> best_;
  std::vector<FoundStages> planned_;   ///< all, without their plans
  std::vector<FoundStages> returned_;  ///< the best ones and others
};

StageSearch::StageSearch(StageSearchSpace question, const PlanningContext& planning)
    : impl_(std::make_unique<Impl>(std::move(question), planning)) {}

StageSearch::~StageSearch() = default;

bool StageSearch::improve(double cutoff_seconds) { return impl_->improve(cutoff_seconds); }
double StageSearch::plan_equal(int stages, const std::atomic<bool>* any_plan) {
  return impl_->plan_equal(stages, any_plan);
}
void StageSearch::plan_best_again() { impl_->plan_best_again(); }
double StageSearch::bound() const { return impl_->bound_; }
std::optional<FoundStages> StageSearch::mixed_with(StageSearch& other, double work_seconds,
                                                   double clock_seconds) {
  return impl_->mixed_with(*other.impl_, work_seconds, clock_seconds);
}
void StageSearch::take_bounds(const StageSearch& of_fewer) {
  impl_->costs_.take_bounds(of_fewer.impl_->costs_);
}
bool StageSearch::prove(double enough) { return impl_->prove(enough); }
void StageSearch::end_after(double work_seconds, double clock_seconds) {
  for (RangeCosts* costs : impl_->graphs_) costs->end_after(work_seconds, clock_seconds);
}
double StageSearch::proven_seconds(double enough) { return impl_->proven_seconds(enough); }
bool StageSearch::is_memory_bound() const { return impl_->is_memory_bound(); }
double StageSearch::work_left() const { return impl_->costs_.time().left(); }
double StageSearch::best_seconds() const { return impl_->best_seconds(); }
PlanningProgress StageSearch::progress() const { return impl_->progress(); }
FoundStages StageSearch::finish() { return impl_->finish(); }
std::optional<FoundStages> StageSearch::with_fewest_in_flight(double seconds) {
  return impl_->with_fewest_in_flight(seconds);
}
std::optional<FoundStages> StageSearch::other(double seconds) { return impl_->other(seconds); }

}  // namespace alpa
