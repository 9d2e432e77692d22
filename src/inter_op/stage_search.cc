// src/inter_op/stage_search.cc — searches for stages, and prices what the search asks for
#include "stage_search.h"

#include <algorithm>
#include <optional>

#include "all_partitions.h"
#include "alpa/base/error.h"
#include "best_partition.h"
#include "cut_prices.h"
#include "range_costs.h"
#include "schedule_bound.h"
#include "src/base/infinity.h"
#include "src/base/timing.h"
#include "src/cost/transfer.h"
#include "src/ir/stages.h"
#include "stage_graph.h"
#include "tuning.h"

namespace alpa {

namespace {

bool are_equal(const FoundStages& a, const inter_op::StagePartition& partition, int schedule) {
  return a.schedule == schedule && inter_op::have_equal_cuts(a.partition, partition);
}

}  // namespace

struct StageSearch::Impl {
  /// One of few partitions, under one schedule.
  struct Few {
    inter_op::StagePartition partition;
    int schedule = 0;
    bool is_played = false;
    double seconds = 0;  ///< if it is played; infinite: it does not fit the memory
    double proven = 0;   ///< by the proofs of its stages' plans
  };

  Impl(StageSearchSpace question, const PlanningContext& planning)
      : question_(std::move(question)),
        options_(planning.options),
        quiet_(of_ranges(planning.options)),
        planning_{planning.model, quiet_, planning.cache},
        costs_(question_.graph, question_.cluster,
               {question_.budget, question_.submeshes, question_.mesh_shapes}, planning_),
        cuts_(question_.graph, question_.cluster, costs_.parts()) {
    const auto& tuning = inter_op::kTuning.stage_search;
    if (!is_played() || question_.graph.nodes.size() > tuning.most_nodes_played) return;
    for (const inter_op::StagePartition& partition :
         inter_op::all_partitions({question_.cluster.num_hosts, question_.cluster.devices_per_host},
                                  costs_.parts(), costs_.ranges().layers(), tuning.most_played))
      for (int schedule = 0; schedule < num_schedules(partition); ++schedule)
        few_.push_back({partition, schedule});
  }

  /// Short rounds.
  static intra_op::AutoShardOptions of_ranges(intra_op::AutoShardOptions options) {
    options.progress = {};
    options.limits.effort = inter_op::kTuning.stage_search.effort;
    options.limits.least_gain = inter_op::kTuning.stage_search.least_gain;
    return options;
  }

  bool is_played() const { return question_.schedules.front().played != nullptr; }
  /// That may differ: one for a single stage.
  int num_schedules(const inter_op::StagePartition& partition) const {
    return partition.stages.size() == 1 ? 1 : static_cast<int>(question_.schedules.size());
  }

  /// The best stages under the bounds. What is not known of them is found out: first bounds of
  /// their own, then plans.
  bool improve(double cutoff) {
    if (costs_.parts().empty() || costs_.is_long_over()) return false;
    if (!few_.empty()) return improve_few(cutoff);
    const auto cheapest = search(RangeCosts::Ask::least);
    if (costs_.seconds_left() <= 0) {
      if (cheapest && !best_) consider(cheapest->partition, cutoff);
      return false;
    }
    if (!cheapest) return bound_ = kInfinity, false;
    if (!costs_.is_memory_bound()) bound_ = std::max(bound_, cheapest->lower_bound);
    tell();
    if (bound_ >= enough(cutoff)) return false;
    if (!std::exchange(has_begun_, true)) return true;  // other searches may have lower bounds
    if (bound_ >= enough(least_counted_)) return count_waits() || consider_best_template(cutoff);
    const auto& tuning = inter_op::kTuning.stage_search;
    const bool is_first = !best_ && cutoff == kInfinity;
    if (!best_ && (is_first || has_passed(tuning.until_template)) &&
        is_one_stage_with_room(cheapest->partition) && !std::exchange(tried_one_stage_, true) &&
        consider(cheapest->partition, cutoff))
      return true;
    if (is_first && has_passed(tuning.until_template) && consider_next_template()) return true;
    if (is_first && has_passed(tuning.until_plan)) consider(cheapest->partition, cutoff);
    const std::vector<RangeQuery> queries = queries_of(cheapest->partition, cheapest->schedule);
    const bool more = costs_.bound(queries);
    const bool is_slow = costs_.ranges().layers() > tuning.many_layers;
    while (more && is_slow && costs_.bound(queries)) {  // a round takes longer than bounds do
    }
    const bool own = std::all_of(queries.begin(), queries.end(), [&](const RangeQuery& query) {
      return costs_.has_own_bound(query);
    });
    if (!more)
      return consider(cheapest->partition, cutoff) || count_waits() ||
             consider_best_template(cutoff);
    if (cutoff == kInfinity && has_passed(tuning.until_more) && consider_next_template())
      return true;
    if (!own) return true;
    const auto likely = search(RangeCosts::Ask::known);
    if (likely && bound_ >= enough(likely->seconds)) consider(likely->partition, cutoff);
    return true;
  }

  /// Few partitions are compared by their schedules alone. The count of the others is no bound on a
  /// schedule: it adds updates of parameters up, lets transfers delay each other, and knows neither
  /// what backward runs hide nor that gradients of weights may wait.
  bool improve_few(double cutoff) {
    Few* next = nullptr;
    double least = kInfinity, proven = kInfinity;
    for (Few& of : few_) {
      const double seconds = of.is_played ? of.seconds : busiest(of, RangeCosts::Ask::least);
      if (seconds < least) next = &of, least = seconds;
      proven = std::min(proven, std::max(of.proven, busiest(of, RangeCosts::Ask::proven)));
    }
    if (!next) return bound_ = kInfinity, false;
    if (costs_.seconds_left() <= 0) {
      if (!best_) play(*next);
      return false;
    }
    bound_ = std::max(bound_, proven);
    tell();
    if (least >= enough(cutoff)) return false;
    if (!std::exchange(has_begun_, true)) return true;  // other searches may have lower bounds
    if (least >= enough(best_seconds())) return false;
    if (!costs_.bound(queries_of(next->partition, next->schedule))) play(*next);
    return true;
  }

  /// Its slowest stage's work: no schedule takes less.
  double busiest(const Few& of, RangeCosts::Ask ask) {
    double slowest = 0;
    for (const RangeQuery& query : queries_of(of.partition, of.schedule))
      slowest = std::max(slowest, costs_.seconds(query, ask));
    return question_.graph.num_micro_batches * slowest;
  }

  void play(Few& of) {
    consider(of.partition, of.schedule, kInfinity);
    of.is_played = true;
    const FoundStages* found = planned_before(of.partition, of.schedule);
    of.seconds = found ? found->seconds : kInfinity;
    if (!found) return;
    double share = 1;  // that is proven of what its stages take
    for (const RangeQuery& query : queries_of(of.partition, of.schedule))
      share = std::min(
          share, costs_.seconds(query, RangeCosts::Ask::proven) / costs_.planned_seconds(query));
    of.proven = share * of.seconds;
  }

  FoundStages* planned_before(const inter_op::StagePartition& partition, int schedule) {
    const auto found = std::find_if(
        planned_.begin(), planned_.end(),
        [&](const FoundStages& planned) { return are_equal(planned, partition, schedule); });
    return found == planned_.end() ? nullptr : &*found;
  }

  /// The search goes on with what stages wait for micro-batches in flight, which takes more time.
  /// False: it has.
  bool count_waits() {
    const bool any = std::any_of(question_.schedules.begin(), question_.schedules.end(),
                                 [](const ScheduleChoice& of) { return of.waits_in_flight; });
    if (!any || std::exchange(counts_waits_, true)) return false;
    if (!best_) return true;
    least_counted_ = kInfinity;
    consider(inter_op::StagePartition(best_->partition));
    return true;
  }

  /// No stages take less, by the schedule if that is known. What may take less is bounded better,
  /// a few times.
  double proven_seconds(double enough) {
    double proven = 0;
    for (int round = 0; round < inter_op::kTuning.stage_search.proof_rounds; ++round) {
      const ProvenBound bound = schedule_bound(enough);
      proven = std::max(proven, bound.seconds);
      if (proven >= enough || bound.least.stages.empty() || costs_.seconds_left() <= 0 ||
          !costs_.bound(queries_of(bound.least, bound.schedule)))
        break;
    }
    return proven;
  }

  /// Of the schedule that may take least.
  struct ProvenBound : inter_op::ScheduleBound {
    int schedule = 0;
  };

  ProvenBound schedule_bound(double enough) {
    if (!few_.empty() || !question_.schedules.front().kind) return {{bound_, {}}};
    const double overlap = question_.cluster.software.gradient_overlap;
    if (overlap > 0 && overlap < 1) return {};  // a share of the reductions takes no time at all
    const inter_op::PartitionCosts costs = costs_.table(RangeCosts::Ask::proven);
    ProvenBound least{{kInfinity, {}}};
    for (int s = 0; s < static_cast<int>(question_.schedules.size()); ++s) {
      const inter_op::PartitionProblem stages =
          problem_of(costs, s, [this](int layer, int before, int after) {
            return cuts_.least(layer, before, after).per_micro_batch;
          });
      inter_op::ScheduleBound bound = inter_op::schedule_bound(
          {.stages = stages,
           .runs =
               [this](int first, int last, int part) {
                 return costs_.least_runs(costs_.ranges().class_of(first, last), part);
               },
           .schedule = *question_.schedules[s].kind,
           .hides_gradients = overlap > 0,
           .enough = enough});
      if (bound.seconds < least.seconds) least = {std::move(bound), s};
    }
    return least;
  }

  FoundStages finish() {
    returned_.clear();
    while ((!best_ || (few_.empty() && costs_.seconds_left() > 0)) && !costs_.is_long_over() &&
           consider_best_template(kInfinity)) {
    }
    if (few_.empty()) look_longer_at_one_stage();
    if (!best_) fail_to_fit();
    if (few_.empty())
      raise_counted_bound();
    else
      least_counted_ = best_->seconds;  // their bound is one of schedules, too
    best_->is_complete = bound_ >= enough(least_counted_);
    best_->lower_bound = std::min(proven_seconds(enough(best_seconds())), best_seconds());
    return returned(*best_);
  }

  std::optional<FoundStages> other(double seconds) {
    for (Few& of : few_)
      if (!of.is_played && busiest(of, RangeCosts::Ask::least) < seconds) play(of);
    if (few_.empty() && returned_.size() > inter_op::kTuning.stage_search.others)
      return std::nullopt;
    const FoundStages* best = nullptr;
    for (const FoundStages& of : planned_)
      if (of.seconds < (best ? best->seconds : seconds) &&
          std::none_of(returned_.begin(), returned_.end(), [&](const FoundStages& known) {
            return are_equal(known, of.partition, of.schedule);
          }))
        best = &of;
    return best ? std::optional(returned(*best)) : std::nullopt;
  }

  std::optional<FoundStages> with_fewest_in_flight(double seconds) {
    const FoundStages* best = nullptr;
    for (const FoundStages& of : planned_)
      if (of.schedule == 0 && of.seconds < (best ? best->seconds : seconds)) best = &of;
    return best ? std::optional(returned(*best)) : std::nullopt;
  }

  FoundStages returned(FoundStages found) {
    returned_.push_back(found);
    for (const RangeQuery& query : queries_of(found.partition, found.schedule))
      found.plans.push_back(costs_.found_plan(query));
    return found;
  }

  /// One stage can be the best and nearly fill the memory: then short looks miss it.
  void look_longer_at_one_stage() {
    for (const inter_op::StagePartition& partition : question_.templates) {
      if (partition.stages.size() != 1 || !is_allowed(partition) || costs_.seconds_left() <= 0)
        continue;
      const std::vector<RangeQuery> queries = queries_of(partition, 0);
      const double bound = seconds_of(partition, 0, [&](const RangeQuery& query) {
        return costs_.seconds(query, RangeCosts::Ask::proven);
      });
      if (bound < enough(best_seconds()) && costs_.plan_longer(queries.front()))
        consider(partition);
    }
  }

  bool has_passed(double share_of_time) const {
    return costs_.seconds_left() < (1 - share_of_time) * options_.limits.seconds;
  }

  /// Stages to fall back on when time is over, and to compare others with: small ones first, which
  /// are planned in the least time, and larger ones as long as they are better. False: that is
  /// over.
  bool consider_next_template() {
    const double before = best_seconds();
    for (std::size_t t = question_.templates.size(); t-- > 0 && !templates_climbed_;) {
      if (considered_[t] || least_seconds_of_template(t) == kInfinity ||
          !may_fit(question_.templates[t]))
        continue;
      consider_template(t);
      templates_climbed_ = best_ && best_seconds() >= before;
      return true;
    }
    return false;
  }

  /// The template of least bound that may be better than the best stages; small ones last, as they
  /// pass on most. False: there is none.
  bool consider_best_template(double cutoff) {
    std::size_t best = question_.templates.size();
    double least = std::min(enough(cutoff), best_seconds());
    for (std::size_t t = 0; t < question_.templates.size(); ++t)
      if (const double seconds = considered_[t] ? kInfinity : least_seconds_of_template(t);
          seconds < least)
        best = t, least = seconds;
    return best < question_.templates.size() && consider_template(best);
  }

  bool consider_template(std::size_t number) {
    considered_[number] = true;
    consider(question_.templates[number]);
    return true;
  }

  double plan_equal(int stages) {
    memory_share_ = inter_op::kTuning.stage_search.memory_share_of_equal;
    double seconds = kInfinity;
    for (std::size_t t = 0; t < question_.templates.size(); ++t) {
      const inter_op::StagePartition& partition = question_.templates[t];
      if (std::ssize(partition.stages) != stages || !is_allowed(partition)) continue;
      if (!considered_[t]) consider_template(t);
      for (int schedule = 0; schedule < num_schedules(partition); ++schedule)
        if (const FoundStages* found = planned_before(partition, schedule))
          seconds = std::min(seconds, found->seconds);
    }
    memory_share_ = inter_op::kTuning.stage_search.memory_share;
    return seconds;
  }

  /// Infinite: it does not fit the memory, or is not allowed.
  double least_seconds_of_template(std::size_t number) {
    const inter_op::StagePartition& partition = question_.templates[number];
    return is_allowed(partition) ? least_seconds(partition) : kInfinity;
  }

  /// Then it is planned once, early: other searches need not go on if they are above it.
  bool is_one_stage_with_room(const inter_op::StagePartition& partition) const {
    return partition.stages.size() == 1 && costs_.has_room(queries_of(partition, 0).front());
  }

  bool may_fit(const inter_op::StagePartition& partition) {
    const std::vector<RangeQuery> queries = queries_of(partition, 0);
    return std::all_of(queries.begin(), queries.end(),
                       [&](const RangeQuery& query) { return costs_.may_fit(query); });
  }

  /// Plans that gave up speed for memory are no proof of what others take: with the bounds of their
  /// ranges alone, the best stages are a bound of all.
  void raise_counted_bound() {
    if (!costs_.is_memory_bound()) return;
    const auto least = search(RangeCosts::Ask::proven);
    if (least && costs_.seconds_left() > 0) bound_ = std::max(bound_, least->lower_bound);
  }

  double best_seconds() const { return best_ ? best_->seconds : kInfinity; }

  bool is_allowed(const inter_op::StagePartition& partition) const {
    const auto& parts = costs_.parts();
    return std::all_of(partition.stages.begin(), partition.stages.end(), [&](const auto& stage) {
      return std::find(parts.begin(), parts.end(), stage.submesh) != parts.end();
    });
  }

  [[noreturn]] void fail_to_fit() {
    const bool none = costs_.seconds_left() > 0 && !search(RangeCosts::Ask::proven);
    const bool late = costs_.seconds_left() <= 0, any_shape = question_.mesh_shapes.empty();
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
                           fit, watch_.seconds())
             : fmt::format("{}{}; {}, or raise the memory budget", fit,
                           none ? "" : ", of those found",
                           any_shape ? "give more layers or devices" : "allow more shapes"),
        late   ? intra_op::NoPlan::out_of_time
        : none ? intra_op::NoPlan::proven
               : intra_op::NoPlan::not_found);
  }

  double enough(double seconds) const { return (1 - options_.limits.relative_gap) * seconds; }

  /// Under the schedule that takes least in the search's count.
  struct Cheapest : inter_op::PartitionResult {
    int schedule = 0;
  };

  std::optional<Cheapest> search(RangeCosts::Ask ask) {
    const inter_op::PartitionCosts costs = costs_.table(ask);
    std::optional<Cheapest> cheapest;
    double lower_bound = kInfinity;
    // As long as waits are not counted, the one with the fewest in flight is never dearer.
    const std::size_t schedules = counts_waits_ ? question_.schedules.size() : 1;
    for (std::size_t s = 0; s < schedules; ++s) {
      auto found = inter_op::best_partition(
          problem_of(costs, static_cast<int>(s), [this](int layer, int before, int after) {
            return counted(cuts_.least(layer, before, after));
          }));
      if (!found) continue;
      lower_bound = std::min(lower_bound, found->lower_bound);
      if (!cheapest || found->seconds < cheapest->seconds)
        cheapest = {*std::move(found), static_cast<int>(s)};
    }
    if (cheapest) cheapest->lower_bound = lower_bound;
    return cheapest;
  }

  inter_op::PartitionProblem problem_of(const inter_op::PartitionCosts& costs, int schedule,
                                        std::function<double(int, int, int)> transfers) {
    const ScheduleChoice& choice = question_.schedules[schedule];
    return {.cluster = {question_.cluster.num_hosts, question_.cluster.devices_per_host},
            .submeshes = costs_.parts(),
            .costs = costs,
            .micro_batches = question_.graph.num_micro_batches,
            .in_flight = choice.in_flight,
            .waits_in_flight = counts_waits_ && choice.waits_in_flight,
            .transfer_seconds = std::move(transfers),
            .is_over = [this] { return costs_.seconds_left() <= 0; }};
  }

  std::vector<RangeQuery> queries_of(const inter_op::StagePartition& partition,
                                     int schedule) const {
    std::vector<RangeQuery> queries;
    int after = static_cast<int>(partition.stages.size());
    const bool is_alone = after == 1;  // then forward and backward follow each other
    for (const inter_op::Stage& stage : partition.stages) {
      const auto part = std::find(costs_.parts().begin(), costs_.parts().end(), stage.submesh);
      invariant(part != costs_.parts().end(), "AutoStages: submesh {} is none of the choices",
                stage.submesh);
      queries.push_back({costs_.ranges().class_of(stage.first_layer, stage.last_layer),
                         static_cast<int>(part - costs_.parts().begin()),
                         is_alone ? 1 : question_.schedules[schedule].in_flight(--after)});
    }
    return queries;
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
    return fewest && (!is_played() || played(partition, 0, schedule) < best_seconds());
  }

  bool consider(const inter_op::StagePartition& partition, int schedule, double cutoff) {
    const std::vector<RangeQuery> queries = queries_of(partition, schedule);
    const double cutoff_of_range = queries.size() == 1 ? enough(cutoff) : kInfinity;
    bool any = false;
    for (const RangeQuery& query : queries) {
      any |= costs_.plan(query, cutoff_of_range, memory_share_);
      if (costs_.planned_seconds(query) == kInfinity) break;
    }
    const double counted = seconds_of(partition, schedule, [&](const RangeQuery& query) {
      return costs_.planned_seconds(query);
    });
    least_counted_ = std::min(least_counted_, counted);
    const double seconds =
        is_played() && counted < kInfinity ? played(partition, schedule, schedule) : counted;
    if (FoundStages* before = planned_before(partition, schedule))
      before->seconds = std::min(before->seconds, seconds);
    else if (seconds < kInfinity)
      planned_.push_back({partition, schedule, seconds});
    if (seconds < best_seconds()) {
      best_ = FoundStages{partition, schedule, seconds};
      tell();
    }
    return any;
  }

  /// By the schedule, of stages that are planned for the micro-batches in flight of schedule
  /// `planned_for`.
  double played(const inter_op::StagePartition& partition, int planned_for, int schedule) {
    const std::vector<RangeQuery> queries = queries_of(partition, planned_for);
    std::vector<StageSeconds> stages;
    for (const RangeQuery& query : queries) stages.push_back(*costs_.planned_parts(query));
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
    return question_.schedules[schedule].played(stages, transfers);
  }

  /// Of a micro-batch, with its share of what crosses once per step.
  double counted(const CutSeconds& cut) const {
    return cut.per_micro_batch + cut.per_step / question_.graph.num_micro_batches;
  }

  double least_seconds(const inter_op::StagePartition& partition) {
    double least = kInfinity;
    for (int schedule = 0; schedule < num_schedules(partition); ++schedule)
      least = std::min(least, seconds_of(partition, schedule, [&](const RangeQuery& query) {
                         return costs_.seconds(query);
                       }));
    return least;
  }

  /// As the stage search counts them.
  template <class SecondsOf>
  double seconds_of(const inter_op::StagePartition& partition, int schedule,
                    const SecondsOf& seconds_of_range) {
    const ScheduleChoice& choice = question_.schedules[schedule];
    const std::vector<RangeQuery> queries = queries_of(partition, schedule);
    const auto count = static_cast<int>(queries.size());
    double to_end = 0, slowest = 0;
    for (int s = count - 1; s >= 0; --s) {
      const double seconds = seconds_of_range(queries[s]);
      to_end += seconds;
      slowest = std::max(slowest, seconds);
      if (counts_waits_ && choice.waits_in_flight)
        slowest = std::max(slowest, to_end / choice.in_flight(count - 1 - s));
      if (s == 0) continue;
      const double cut = counted(
          cuts_.least(partition.stages[s].first_layer, queries[s - 1].part, queries[s].part));
      to_end += cut;
      slowest = std::max(slowest, cut);
    }
    return to_end + (question_.graph.num_micro_batches - 1) * slowest;
  }

  PlanningProgress progress() const {
    PlanningProgress now{.lower_bound_seconds = bound_, .elapsed_seconds = watch_.seconds()};
    now.best_seconds = best_seconds();
    if (best_) now.stages = static_cast<int>(best_->partition.stages.size());
    now.lower_bound_seconds = std::min(now.lower_bound_seconds, now.best_seconds);
    now.searches = costs_.num_searches();
    now.ranges = costs_.num_ranges();
    now.seconds_left = costs_.seconds_left();
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
  const CutPrices cuts_;
  const Stopwatch watch_;
  double bound_ = 0, least_counted_ = kInfinity;
  /// Of the time left, for one range whose best plan has too much memory.
  double memory_share_ = inter_op::kTuning.stage_search.memory_share;
  std::vector<bool> considered_ = std::vector<bool>(question_.templates.size());  ///< templates
  std::vector<Few> few_;  ///< all partitions; none: there are many
  bool has_begun_ = false, tried_one_stage_ = false, templates_climbed_ = false,
       counts_waits_ = false;
  std::optional<FoundStages> best_;
  std::vector<FoundStages> planned_;   ///< all, without their plans
  std::vector<FoundStages> returned_;  ///< the best ones and others
};

StageSearch::StageSearch(StageSearchSpace question, const PlanningContext& planning)
    : impl_(std::make_unique<Impl>(std::move(question), planning)) {}

StageSearch::~StageSearch() = default;

bool StageSearch::improve(double cutoff_seconds) { return impl_->improve(cutoff_seconds); }
double StageSearch::plan_equal(int stages) { return impl_->plan_equal(stages); }
double StageSearch::bound() const { return impl_->bound_; }
double StageSearch::proven_seconds(double enough) { return impl_->proven_seconds(enough); }
double StageSearch::best_seconds() const { return impl_->best_seconds(); }
PlanningProgress StageSearch::progress() const { return impl_->progress(); }
FoundStages StageSearch::finish() { return impl_->finish(); }
std::optional<FoundStages> StageSearch::with_fewest_in_flight(double seconds) {
  return impl_->with_fewest_in_flight(seconds);
}
std::optional<FoundStages> StageSearch::other(double seconds) { return impl_->other(seconds); }

}  // namespace alpa
