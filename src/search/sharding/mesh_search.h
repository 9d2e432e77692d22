#pragma once
/// The search for plans on one mesh. It continues over several calls; each keeps the plans it finds
/// and starts from the cheapest known. Not shared between threads.
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/infinity.h"
#include "src/ilp/solve.h"
#include "src/search/program/instance.h"
#include "src/search/space/auto_shard_options.h"
#include "src/search/space/planning_cache.h"
#include "src/search/space/planning_time.h"
#include "src/search/tuning.h"

namespace alpa::intra_op {

/// Objective; without a plan, infinite.
inline double seconds_of(const ShardingPlan* plan) {
  return plan ? plan->cost.objective_seconds : kInfinity;
}

/// Limits of one search, and its goal. The end of planning ends it as well.
struct Effort {
  std::int64_t work = 0;         ///< cells (ilp::Limits::work)
  std::int64_t layers_work = 0;  ///< of planning by layers, where that is more
  /// also when planning is over, so that there is a plan whatever the limit
  double least_seconds = search::kTuning.mesh_search.least_seconds;
  double share_of_time = 1;                 ///< of what is left
  bool after_the_end = false;               ///< planning is over; only `least_seconds` end it
  double relative_gap = 0;                  ///< (objective - bound) / objective
  double modest_gap = 0, modest_share = 0;  ///< of ilp::Options
  /// More expensive plans are useless.
  double cutoff_seconds = kInfinity;
  bool explain = true;    ///< why there is no plan: ilp::Options::explain
  bool repeated = false;  ///< only plans of repeated layers (repeated_layers.h): nothing is proven
  /// Called with the objective and the bound of this mesh whenever one of them improves.
  std::function<void(double best_seconds, double bound_seconds)> progress = {};
};

class MeshSearch {
 public:
  /// Arguments must outlive the search. Throws Error if the options cannot
  /// be satisfied on this mesh.
  MeshSearch(const SharedFacts& graph, const DeviceMesh& mesh, const cost::CostModel& model,
             const AutoShardOptions& options, const PlanningTime& time, PlanningCache& cache);

  /// Looks for a plan cheaper than the cutoff and a higher bound, without a budget. Throws
  /// Error if there is no plan.
  void search(const Effort& effort);

  /// Looks for a plan in which equal layers have equal strategies, every second one at least: a
  /// small part of the work of the whole, where layers repeat. Nothing is proven.
  void search_repeated(const Effort& effort, std::optional<std::int64_t> budget = {});

  /// True if a plan of repeated layers was found.
  bool repeats() const { return repeats_; }

  /// Plans by layers if there are many and their tables are exact: proven, with little work however
  /// many layers there are. Otherwise `search` begins anew.
  void search_exact_layers(const Effort& effort);

  /// Solves the templates (templates.h) that can have a plan cheaper than is known and than the
  /// cutoff, at most `most` of those left, which takes milliseconds each and is done even when time
  /// is over. Their plans are plans of the whole.
  void search_templates(double cutoff_seconds, int most = std::numeric_limits<int>::max(),
                        std::optional<std::int64_t> budget = {});

  /// Solves the whole with the batch on each mesh axis in turn: a quarter of the strategies.
  void search_batch_axes(const Effort& each, std::optional<std::int64_t> budget = {});

  /// Looks for plans whose counted bytes fit the budget: in the templates, as far as they
  /// can have a cheaper one than is known, then in the whole. Whatever the effort, there is
  /// a plan after this if that of a template fits the budget. Throws OverBudget if it
  /// proves that there is none.
  void search_within(std::int64_t budget, const Effort& each);

  /// Only the whole, from the plans known on.
  void search_whole_within(std::int64_t budget, const Effort& each);

  const DeviceMesh& mesh() const { return mesh_; }

  /// The cheapest plan known, or the cheapest whose counted bytes fit the budget; null: none.
  const ShardingPlan* best(std::optional<std::int64_t> budget = {});

  /// Proven: seconds that no plan on this mesh is below, and none within the budget.
  double bound() const { return bound_; }
  double bound_within(std::int64_t budget) const {
    return budget <= bound_within_.budget ? std::max(bound_, bound_within_.seconds) : bound_;
  }

  /// No plan takes less than this.
  void raise_bound(double seconds) { bound_ = std::max(bound_, seconds); }

  /// Table cells of the full ILP, memory rows excluded.
  std::int64_t cells();

 private:
  struct Known {
    ShardingPlan plan;
    std::int64_t bytes = -1;  ///< counted; -1: not yet
  };
  struct Template {
    AutoShardOptions options;
    std::unique_ptr<const SearchSpace> space = nullptr;  ///< once its plans may be wanted
    double bound = 0;  ///< seconds, proven for its plans without a budget; infinite: it has none
    bool is_solved = false;
    int wider = -1;  ///< the template whose bound holds for this one, too
  };

  bool has_many_layers() const;
  void search_layers(const Effort& effort, bool exact);
  void make_templates();
  bool can_beat(double seconds, Template& part);
  void solve_template(Template& part);
  void refute(std::int64_t budget, const Effort& each);
  /// Result and proof of one solve.
  struct Solved {
    std::optional<ShardingPlan> plan;
    double bound = 0;  ///< seconds
  };
  Solved solve(const SearchSpace& space, const Instance& instance, const Effort& effort);
  double search_model(const SearchSpace& space, std::int64_t budget, const Effort& each);
  const Known* solve_within(const SearchSpace& space, const MemoryLimit& memory,
                            const Effort& effort, double* bound = nullptr);
  void keep_prices(const ilp::Solution& solution, const Instance& instance);
  ShardingPlan plan_of(const SearchSpace& space, const Instance& instance,
                       const std::vector<int>& choice);
  std::vector<int> start(const SearchSpace& space, const Instance& instance) const;
  const Instance& whole_instance();
  std::int64_t bytes_of(Known& known) const;
  Known& keep(ShardingPlan plan);
  OverBudget over_budget(const ilp::Infeasible& infeasible, std::int64_t budget);

  const Graph& graph_;
  const DeviceMesh mesh_;
  cost::CostModel model_;
  AutoShardOptions options_;
  PlanningCache& cache_;
  MeshFacts& facts_;  ///< facts about this mesh under this model
  const PlanningTime& time_;
  SearchSpace space_;
  std::unique_ptr<const Instance> instance_;  ///< of the whole without memory
  std::vector<Template> templates_;
  std::vector<Known> known_;  ///< the cheapest first
  bool layers_searched_ = false;
  double bound_;
  struct {
    std::int64_t budget = -1;
    double seconds = 0;
  } bound_within_;  ///< of the last search under a budget
  /// of the cheapest plan found under a budget, in seconds per byte
  std::map<std::int64_t, double> usage_prices_;
  double priced_seconds_ = kInfinity;  ///< of that plan
  bool repeats_ = false;
  PlannerStatistics statistics_;  ///< of the searches in the whole
};

}  // namespace alpa::intra_op
