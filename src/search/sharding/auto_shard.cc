// From a graph to its cheapest sharding plan on any of several meshes
#include "src/search/sharding/auto_shard.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <set>
#include <utility>

#include "src/base/infinity.h"
#include "src/search/sharding/mesh_search.h"
#include "src/search/tuning.h"

namespace alpa::intra_op {
namespace {

constexpr int kAll = std::numeric_limits<int>::max();

/// How far an error is from a plan.
std::int64_t missing_bytes(const Error& error) {
  const auto* over = dynamic_cast<const OverBudget*>(&error);
  return over && over->missing_bytes > 0 ? over->missing_bytes
                                         : std::numeric_limits<std::int64_t>::max();
}

/// The error with the fewest missing bytes.
class LeastError {
 public:
  void add(const Error& error) {
    if (first_ && missing_bytes(error) >= missing_) return;
    first_ = std::current_exception();
    missing_ = missing_bytes(error);
  }
  bool is_any() const { return first_ != nullptr; }
  void rethrow_if_any() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::exception_ptr first_;
  std::int64_t missing_ = 0;
};

/// Tells the user's callback what improved. One thread.
class PlanningReport {
 public:
  explicit PlanningReport(ProgressCallback callback) : callback_(std::move(callback)) {}

  bool is_wanted() const { return callback_ != nullptr; }

  /// Reports improvements only. Until the budget changes, the bound never falls and the best plan
  /// never gets more expensive.
  void tell(PlanningProgress now) {
    if (!callback_) return;
    if (now.bytes != last_.bytes) last_ = {.bytes = now.bytes};
    const bool cheaper = now.best_seconds < last_.best_seconds;
    if (!cheaper) now.best_seconds = last_.best_seconds, now.mesh = last_.mesh;
    now.lower_bound_seconds =
        std::min(now.best_seconds, std::max(now.lower_bound_seconds, last_.lower_bound_seconds));
    if (!cheaper && now.lower_bound_seconds <= last_.lower_bound_seconds) return;
    last_ = now;
    callback_(last_);
  }

 private:
  ProgressCallback callback_;
  PlanningProgress last_;  ///< told
};

}  // namespace

struct AutoSharding::Impl {
  using Budget = std::optional<std::int64_t>;

  std::vector<DeviceMesh> meshes;
  cost::CostModel model;
  AutoShardOptions options;
  PlanningCache own_cache;
  PlanningCache& cache;  ///< own_cache, or the caller's
  PlanningTime time;
  SharedFacts graph;  ///< with the rules of the cache
  PlanningReport report;
  /// of the meshes on which the options can be followed
  std::vector<std::unique_ptr<MeshSearch>> searches;
  LeastError failure;                 ///< of the others
  std::set<const MeshSearch*> begun;  ///< those whose whole program has been searched
  bool searched = false;
  std::int64_t work_within =
      search::kTuning.auto_shard.budget_work;  ///< of the next round under a budget

  Impl(const Graph& g, const std::vector<DeviceMesh>& m, const cost::CostModel& c,
       const AutoShardOptions& o, PlanningCache* known)
      : meshes(m),
        model(c),
        options(o),
        cache(known ? *known : own_cache),
        time(o.limits),
        graph(std::make_shared<GraphFacts>(g, &cache.rules, o.part.loops, copies_state_once(o))),
        report(o.progress) {}

  ShardingPlan plan(Budget budget) {
    if (!searched) search();
    searched = true;
    if (best({}) == nullptr) {
      if (!time.is_long_over()) failure.rethrow_if_any();
      fail_in_time({});
    }
    if (budget && best(budget) != best({})) search_within(*budget);
    return finished(budget);
  }

  MeshSearch* best_search(Budget budget) {
    MeshSearch* cheapest = nullptr;
    for (const auto& search : searches)
      if (seconds_of(search->best(budget)) <
          (cheapest ? seconds_of(cheapest->best(budget)) : kInfinity))
        cheapest = search.get();
    return cheapest;
  }

  const ShardingPlan* best(Budget budget) {
    MeshSearch* search = best_search(budget);
    return search ? search->best(budget) : nullptr;
  }

  /// The bound proven over all meshes except `without`.
  double bound(Budget budget, const MeshSearch* without = nullptr) const {
    double bound = kInfinity;
    for (const auto& search : searches)
      if (search.get() != without)
        bound = std::min(bound, budget ? search->bound_within(*budget) : search->bound());
    return bound;
  }

  /// The best plan, with the bound proven over all meshes.
  ShardingPlan finished(Budget budget) {
    ShardingPlan plan = *best(budget);
    plan.cost.lower_bound_seconds = std::min(plan.cost.objective_seconds, bound(budget));
    plan.statistics.total_seconds = time.elapsed();
    return plan;
  }

  /// Reports what a search has improved.
  void tell(Budget budget) {
    if (!report.is_wanted()) return;
    PlanningProgress now{.elapsed_seconds = time.elapsed(), .bytes = budget};
    if (MeshSearch* search = best_search(budget)) {
      now.best_seconds = seconds_of(search->best(budget));
      now.mesh = shape_text(search->mesh());
    }
    now.lower_bound_seconds = bound(budget);
    report.tell(std::move(now));
  }

  /// A plan must take less to be of use.
  double useful_seconds(double gap, Budget budget = {}) {
    const ShardingPlan* known = best(budget);
    return known ? std::min((1 - gap) * seconds_of(known), options.limits.cutoff_seconds)
                 : kInfinity;
  }

  /// Limits of one search. A plan is useful only if it is cheaper than the best known
  /// one by more than the gap.
  Effort effort_of(MeshSearch& search, std::int64_t work, double gap, Budget budget = {}) {
    Effort effort{.work = work, .relative_gap = gap};
    effort.cutoff_seconds = useful_seconds(gap, budget);
    effort.share_of_time =
        1 - std::min(search::kTuning.auto_shard.most_of_waiting,
                     search::kTuning.auto_shard.share_of_waiting * waiting(search));
    if (search.cells() > search::kTuning.auto_shard.large_cells)
      effort.modest_gap = search::kTuning.auto_shard.modest_gap,
      effort.modest_share = budget ? 0 : search::kTuning.auto_shard.modest_share;
    // other limits than the user's are steps on the way to a plan
    effort.explain =
        options.explain && (!budget || budget == options.memory_budget_bytes.value_or(*budget));
    if (budget || !report.is_wanted()) return effort;
    const double others = bound({}, &search);
    effort.progress = [this, &search, others](double best_seconds, double bound_seconds) {
      report.tell({best_seconds, std::min(others, std::max(search.bound(), bound_seconds)),
                   time.elapsed(), shape_text(search.mesh())});
    };
    return effort;
  }

  /// About a hundred sweeps of the dual bound, which prove most programs.
  std::int64_t first_work(MeshSearch& search) const {
    return std::max(least_work(),
                    shared(search::kTuning.auto_shard.first_work_per_cell * search.cells()));
  }
  std::int64_t easy_work(MeshSearch& search) const {
    return std::max(search::kTuning.auto_shard.easy_work,
                    search::kTuning.auto_shard.easy_work_per_cell * search.cells());
  }
  std::int64_t least_work() const { return shared(search::kTuning.auto_shard.first_work); }
  std::int64_t shared(std::int64_t work) const {
    return static_cast<std::int64_t>(options.limits.effort * static_cast<double>(work));
  }
  static bool is_small(MeshSearch& search) {
    return search::kTuning.auto_shard.first_work_per_cell * search.cells() <=
           search::kTuning.auto_shard.first_work;
  }

  /// Easy programs end with the first look. For others, a template of each mesh tells which are
  /// promising; all templates of those tell which is the most promising one. In the first round
  /// that mesh comes first: what it finds drops most others. In later rounds the mesh with the
  /// lowest bound comes first. Where there is hardly time, all begins with a template of each mesh.
  void search() {
    for (std::size_t mesh = 0; mesh < meshes.size(); ++mesh) open(mesh);
    if (has_hardly_time())  // a template is the surer plan
      for (MeshSearch* search : by_bound()) search_templates(*search, 1);
    for (MeshSearch* search : by_bound()) look_at_repeated(*search);
    if (options.limits.first_plan && best(options.memory_budget_bytes) != nullptr) return;
    // Bounds of a stage's meshes are known: without a budget there is nothing left to find.
    if (exceeds_budget() && !options.part.mesh_bounds.empty()) return;
    for (MeshSearch* search : by_best()) look_at(*search);
    for (MeshSearch* search : by_bound())
      if (!search->repeats()) search_templates(*search, 1);
    if (exceeds_budget()) return;
    for (MeshSearch* search : by_best())
      if (!search->repeats() &&
          seconds_of(search->best()) <= search::kTuning.auto_shard.promising * seconds_of(best({})))
        search_templates(*search, kAll);
    for (MeshSearch* search : by_best())
      search_whole(*search, first_work(*search),
                   is_small(*search) ? 0 : options.limits.relative_gap);
    for (MeshSearch* search : by_best()) search_templates(*search, kAll);
    std::int64_t work = least_work();
    for (const auto& search : searches) work = std::max(work, first_work(*search));
    for (double before = 2; !is_finished() && gains(before);) {
      before = gap();
      work = std::min(search::kTuning.auto_shard.more_work * work,
                      search::kTuning.auto_shard.most_work);
      for (MeshSearch* search : by_bound())
        search_whole(*search, work, options.limits.relative_gap);
    }
    improve_within_gap();
    bound_late();
  }

  /// Meshes whose first search of the whole is still to come.
  int waiting(const MeshSearch& but) {
    return static_cast<int>(
        std::count_if(searches.begin(), searches.end(), [&](const auto& search) {
          return search.get() != &but && !begun.contains(search.get()) && !is_settled(*search, 0);
        }));
  }

  /// The bound of all meshes is the least. Time may have ended before some were searched: then a
  /// short look tells more of them than what any plan takes.
  void bound_late() {
    if (!is_nearly_late()) return;
    std::vector<MeshSearch*> open = by_bound();
    std::erase_if(open, [&](MeshSearch* search) {
      return begun.contains(search) || search->best() == nullptr || is_settled(*search, 0);
    });
    const WorkWatch watch;
    for (std::size_t at = 0; at < open.size(); ++at) {
      const double left = search::kTuning.auto_shard.late_seconds - watch.seconds();
      if (left <= 0) return;
      Effort effort = effort_of(*open[at], first_work(*open[at]), 0);
      effort.least_seconds = left / static_cast<double>(open.size() - at);
      effort.modest_gap = search::kTuning.mesh_search.any_gap;
      effort.modest_share = 0;
      effort.after_the_end = true;
      try_search(*open[at], effort);
    }
  }

  /// A plan within the gap may still cost more than splitting the batch over one axis of its mesh.
  void improve_within_gap() {
    MeshSearch* search = best_search({});
    if (search == nullptr || search->repeats()) return;
    if (is_settled(*search, 0) || time.is_over() || exceeds_budget()) return;
    search->search_batch_axes(effort_of(*search, least_work(), 0));
    tell({});
  }

  /// Between the best plan and the bound, as a share; 1 without a plan.
  double gap() {
    const double best_seconds = seconds_of(best({}));
    return best_seconds < kInfinity && best_seconds > 0 ? 1 - bound({}) / best_seconds : 1;
  }

  /// Whether another round is likely to close a part of the gap, which was `before` one round ago.
  bool gains(double before) {
    return best({}) == nullptr || gap() <= (1 - options.limits.least_gain) * before;
  }

  bool is_finished() {
    return time.is_over() || exceeds_budget() || bound({}) >= useful_seconds(gap_worth_a_round({}));
  }

  /// A plan proven to be this close to the best one is not worth another round.
  double gap_worth_a_round(Budget budget) {
    MeshSearch* search = best_search(budget);
    const bool large =
        search != nullptr && search->cells() > search::kTuning.auto_shard.large_cells;
    return std::max(options.limits.relative_gap, large ? search::kTuning.auto_shard.large_gap : 0);
  }

  void search_templates(MeshSearch& search, int most) {
    if (is_settled(search, 0) || (is_late() && &search != best_search({}))) return;
    if (time.is_long_over()) return;
    search.search_templates(seconds_of(best({})), most);
    tell({});
  }

  void search_whole(MeshSearch& search, std::int64_t work, double gap) {
    if (is_settled(search, gap) || is_late() || time.is_long_over()) return;
    // what would hardly begin is left to `bound_late`
    if (!begun.empty() && !begun.contains(&search) && is_nearly_late()) return;
    begun.insert(&search);
    try_search(search, effort_of(search, work, gap));
  }

  /// A budget that one mesh cannot keep may be kept on another.
  void try_search(MeshSearch& search, const Effort& effort) {
    try {
      search.search(effort);
    } catch (const Error& error) {
      failure.add(error);
    }
    tell({});
  }

  /// The best plan exceeds the budget, so the rest of the time is for plans that keep it.
  bool exceeds_budget() {
    return options.memory_budget_bytes && best({}) != best(options.memory_budget_bytes);
  }

  void open(std::size_t mesh) {
    if (time.is_long_over()) return;
    try {
      searches.push_back(
          std::make_unique<MeshSearch>(graph, meshes[mesh], model, options, time, cache));
      if (!options.part.mesh_bounds.empty())
        searches.back()->raise_bound(options.part.mesh_bounds.at(mesh));
    } catch (const Error& error) {
      failure.add(error);
    }
  }

  void look_at_repeated(MeshSearch& search) {
    if (has_hardly_time() || is_settled(search, 0)) return;
    search.search_repeated(
        effort_of(search, easy_work(search), search::kTuning.auto_shard.repeated_gap));
    tell({});
  }

  void look_at(MeshSearch& search) {
    if (time.is_over() || is_settled(search, 0)) return;
    Effort effort = effort_of(search, easy_work(search), 0);
    if (search.cells() > search::kTuning.auto_shard.easy_cells)
      return search.search_exact_layers(effort);
    effort.layers_work = first_work(search);
    try_search(search, effort);
  }

  /// True if the search cannot find a plan of use, cheaper than the best known by the gap.
  bool is_settled(const MeshSearch& search, double gap) {
    return search.bound() >= useful_seconds(gap);
  }

  /// True if time is over and there is a plan.
  bool is_late() { return time.is_over() && best({}) != nullptr; }
  /// The same where the rest is too short for the search of a whole mesh.
  bool is_nearly_late() { return has_hardly_time() && best({}) != nullptr; }
  bool has_hardly_time() const { return time.left() < search::kTuning.auto_shard.late_seconds; }

  template <class Key>
  std::vector<MeshSearch*> sorted_by(Key key) const {
    std::vector<MeshSearch*> order;
    for (const auto& search : searches) order.push_back(search.get());
    std::stable_sort(order.begin(), order.end(),
                     [&](MeshSearch* a, MeshSearch* b) { return key(a) < key(b); });
    return order;
  }
  std::vector<MeshSearch*> by_bound() const {
    return sorted_by([](MeshSearch* search) { return search->bound(); });
  }
  std::vector<MeshSearch*> by_best() const {
    return sorted_by([](MeshSearch* search) { return seconds_of(search->best()); });
  }

  /// Rounds over the meshes with more and more work, until there is a plan.
  void search_within(std::int64_t budget) {
    LeastError over;
    std::int64_t least_bytes = std::numeric_limits<std::int64_t>::max();  // on all meshes
    std::vector<MeshSearch*> open = by_best();
    for (int round = 0; round == 0 || (best(budget) == nullptr && !open.empty()); ++round) {
      const bool is_most = work_within >= search::kTuning.auto_shard.most_work;
      if (round > 0 && (time.is_over() || is_most)) fail_in_time(budget);
      if (round > 0)
        work_within = std::min(search::kTuning.auto_shard.more_work * work_within,
                               search::kTuning.auto_shard.most_work);
      std::vector<MeshSearch*> undecided;
      for (MeshSearch* search : open) {
        if (search->bound() >= useful_seconds(within_gap(), budget)) continue;
        try {
          search->search_within(budget, effort_of(*search, work_within, within_gap(), budget));
          undecided.push_back(search);
        } catch (const OverBudget& error) {
          over.add(error);
          least_bytes = std::min(least_bytes, error.least_bytes);
        }
        tell(budget);
      }
      open = std::move(undecided);
    }
    if (best(budget) == nullptr) try {
        over.rethrow_if_any();
      } catch (OverBudget& error) {
        error.least_bytes = least_bytes;
        throw;
      }
    if (!options.limits.first_plan) improve_within(budget);
  }

  /// A plan within a budget that is proven to be this close to the best one is good enough.
  double within_gap() const {
    return std::max(search::kTuning.mesh_search.budget_gap, options.limits.relative_gap);
  }

  /// One longer round on the best mesh, where the gap is wide after the first one.
  void improve_within(std::int64_t budget) {
    MeshSearch* search = best_search(budget);
    const double enough =
        (1 - std::max(search::kTuning.mesh_search.budget_gap, gap_worth_a_round(budget))) *
        seconds_of(best(budget));
    if (search == nullptr || time.is_over() || search->bound_within(budget) >= enough) return;
    search->search_whole_within(
        budget, effort_of(*search, search::kTuning.auto_shard.more_work * work_within, 0, budget));
    tell(budget);
  }

  [[noreturn]] void fail_in_time(Budget budget) const {
    const std::string where =
        meshes.size() == 1 ? "a " + shape_text(meshes[0]) + " mesh" : "any mesh";
    const std::string what =
        budget ? fmt::format(" that fits into {} bytes per device", *budget) : "";
    const std::string when =
        time.is_stopped()
            ? fmt::format("before planning was stopped after {:.3g} seconds", time.elapsed())
        : time.is_over()
            ? fmt::format("in {:.3g} seconds", time.elapsed())
            : fmt::format("though {:.3g} of {:.3g} seconds are left", time.left(), time.limit());
    const char* help = time.is_over() ? "allow more seconds" : "use a method with fewer choices";
    throw OverBudget(fmt::format("method {}: no plan on {}{} was found {}; {}{}", options.method,
                                 where, what, when, help, budget ? " or more bytes" : ""),
                     time.is_over() ? NoPlan::out_of_time : NoPlan::not_found);
  }
};

AutoSharding::AutoSharding(const Graph& graph, const std::vector<DeviceMesh>& meshes,
                           const cost::CostModel& model, const AutoShardOptions& options,
                           PlanningCache* cache)
    : impl_(new Impl(graph, meshes, model, options, cache)) {
  require(!meshes.empty(), "auto_shard: no mesh to plan for");
  require(options.limits.relative_gap >= 0 && options.limits.relative_gap < 1,
          "auto_shard: relative_gap is {}; give at least 0 and less than 1",
          options.limits.relative_gap);
}

AutoSharding::~AutoSharding() = default;

ShardingPlan AutoSharding::plan(std::optional<std::int64_t> memory_budget_bytes) {
  return impl_->plan(memory_budget_bytes);
}

void AutoSharding::end_within(double seconds) { impl_->time.end_within(seconds); }

bool AutoSharding::is_over() const { return impl_->time.is_over(); }

double AutoSharding::work_left() const { return impl_->time.left(); }

ShardingPlan auto_shard(const Graph& graph, const DeviceMesh& mesh, const cost::CostModel& model,
                        const AutoShardOptions& options, PlanningCache* cache) {
  return auto_shard(graph, std::vector<DeviceMesh>{mesh}, model, options, cache);
}

ShardingPlan auto_shard(const Graph& graph, const std::vector<DeviceMesh>& meshes,
                        const cost::CostModel& model, const AutoShardOptions& options,
                        PlanningCache* cache) {
  return AutoSharding(graph, meshes, model, options, cache).plan(options.memory_budget_bytes);
}

}  // namespace alpa::intra_op
