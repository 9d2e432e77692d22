// src/intra_op/auto_shard.cc — from a graph to its cheapest sharding plan on any of several meshes
#include "alpa/intra_op/auto_shard.h"

#include <algorithm>
#include <exception>
#include <limits>

#include "mesh_search.h"

namespace alpa {
namespace {

/// Cells of all tables of a program that may be an easy one, and the work (ilp::Options::work_limit) after
/// which it is not.
constexpr std::int64_t kEasyCells = 1'000'000, kEasyWork = 500'000'000;
/// Work of the first attempt to keep a budget; each round of attempts gets four times that of the last.
constexpr std::int64_t kFirstWork = 500'000'000;
constexpr std::int64_t kMoreWork = 4;
/// An attempt ends after so many seconds per cell, too: ten times what a core takes, for what the solver
/// does not count.
constexpr double kMostSecondsPerCell = 1e-8;
/// Of the time: for a first look at all meshes, and for searches without a budget once their best plan
/// exceeds the budget.
constexpr double kLookShare = 0.25;

AutoShardOptions batch_only(std::string method) {
  AutoShardOptions options;
  options.method = std::move(method);
  options.split_batch_everywhere = true;
  return options;
}

/// How far an error is from a plan.
std::int64_t missing_bytes(const Error& error) {
  const auto* over = dynamic_cast<const OverBudget*>(&error);
  return over && over->missing_bytes > 0 ? over->missing_bytes : std::numeric_limits<std::int64_t>::max();
}

/// Of several errors the one that lacks least.
class LeastError {
 public:
  void add(const Error& error) {
    if (first_ && missing_bytes(error) >= missing_) return;
    first_ = std::current_exception();
    missing_ = missing_bytes(error);
  }
  void rethrow_if_any() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::exception_ptr first_;
  std::int64_t missing_ = 0;
};

double seconds_of(const ShardingPlan* plan) {
  return plan ? plan->cost.objective_seconds : std::numeric_limits<double>::infinity();
}

}  // namespace

AutoShardOptions data_parallel_options() {
  AutoShardOptions options = batch_only("data");
  options.replicate_parameters = options.replicate_optimizer_state = true;
  return options;
}

AutoShardOptions zero2_options() {
  AutoShardOptions options = batch_only("zero2");
  options.replicate_parameters = options.shard_optimizer_state = true;
  return options;
}

AutoShardOptions zero3_options() {
  AutoShardOptions options = batch_only("zero3");
  options.shard_parameters = options.shard_optimizer_state = true;
  return options;
}

struct AutoSharding::Impl {
  using Budget = std::optional<std::int64_t>;

  const Graph& graph;
  std::vector<DeviceMesh> meshes;
  CostModel model;
  AutoShardOptions options;
  PlanningCache own_cache;
  PlanningCache& cache;  ///< own_cache, or the caller's
  PlanningTime time;
  std::vector<std::unique_ptr<MeshSearch>>
      searches;        ///< of the meshes on which the options can be followed
  LeastError failure;  ///< of the others
  bool searched = false;
  std::int64_t work = kFirstWork;

  Impl(const Graph& g, const std::vector<DeviceMesh>& m, const CostModel& c, const AutoShardOptions& o,
       PlanningCache* known)
      : graph(g),
        meshes(m),
        model(c),
        options(o),
        cache(known ? *known : own_cache),
        time(o.time_limit_seconds, o.stop) {}

  ShardingPlan plan(Budget budget) {
    if (!searched) search();
    searched = true;
    if (best({}) == nullptr) {
      failure.rethrow_if_any();
      fail_in_time({});
    }
    if (budget && best(budget) != best({})) search_within(*budget);
    return finished(budget);
  }

  const ShardingPlan* best(Budget budget) {
    const ShardingPlan* cheapest = nullptr;
    for (const auto& search : searches) {
      const ShardingPlan* plan = search->best(budget);
      if (plan && seconds_of(plan) < seconds_of(cheapest)) cheapest = plan;
    }
    return cheapest;
  }

  /// The best plan with what is proven of all meshes.
  ShardingPlan finished(Budget budget) {
    ShardingPlan plan = *best(budget);
    double bound = plan.cost.objective_seconds;
    for (const auto& search : searches)
      bound = std::min(bound, budget ? search->bound_within(*budget) : search->bound());
    plan.cost.lower_bound_seconds = bound;
    plan.statistics.total_seconds = time.elapsed();
    return plan;
  }

  /// The most promising mesh gets half of the time that is left, the next one half of the rest, and so on.
  void search() {
    for (const DeviceMesh& mesh : meshes) look_at(mesh);
    for (const auto& search : searches)
      if (!is_settled(*search)) search->search_templates();
    const std::vector<MeshSearch*> order = most_promising_first();
    const double look = kLookShare * time.left() / static_cast<double>(meshes.size());
    for (MeshSearch* search : order) {
      if (is_settled(*search) || is_late()) continue;
      const double seconds = search == order.back() ? time.left() : time.left() / 2;
      // If the best plan exceeds the budget, the rest of the time is for plans that keep it.
      try_search(*search, {exceeds_budget() ? look : seconds});
    }
  }

  /// What one mesh cannot keep, another may.
  void try_search(MeshSearch& search, const Effort& effort) {
    try {
      search.search(effort);
    } catch (const Error& error) {
      failure.add(error);
    }
  }

  bool exceeds_budget() {
    return options.memory_budget_bytes && best({}) != best(options.memory_budget_bytes);
  }

  /// The easy programs end here.
  void look_at(const DeviceMesh& mesh) {
    const double most = kLookShare * time.limit() / static_cast<double>(meshes.size());
    try {
      auto search = std::make_unique<MeshSearch>(graph, mesh, model, options, time, cache);
      if (search->cells() <= kEasyCells && !is_late()) try_search(*search, {most, kEasyWork});
      searches.push_back(std::move(search));
    } catch (const Error& error) {
      failure.add(error);
    }
  }

  /// True if the search cannot find a plan cheaper than the best known.
  bool is_settled(const MeshSearch& search) { return search.bound() >= seconds_of(best({})); }

  /// True if time is over and there is a plan.
  bool is_late() { return time.is_over() && best({}) != nullptr; }

  std::vector<MeshSearch*> most_promising_first() const {
    std::vector<MeshSearch*> order;
    for (const auto& search : searches) order.push_back(search.get());
    std::stable_sort(order.begin(), order.end(), [](MeshSearch* a, MeshSearch* b) {
      return seconds_of(a->best()) < seconds_of(b->best());
    });
    return order;
  }

  /// Rounds over the meshes with more and more work, until there is a plan.
  void search_within(std::int64_t budget) {
    LeastError over;
    std::vector<MeshSearch*> open = most_promising_first();
    for (int round = 0; round == 0 || (best(budget) == nullptr && !open.empty()); ++round) {
      if (round > 0 && time.is_over()) fail_in_time(budget);
      if (round > 0) work *= kMoreWork;
      std::vector<MeshSearch*> undecided;
      for (MeshSearch* search : open) {
        if (search->bound() >= seconds_of(best(budget))) continue;
        try {
          const double most = kMostSecondsPerCell * static_cast<double>(work);
          search->search_within(budget, {std::min(time.left(), most), work});
          undecided.push_back(search);
        } catch (const OverBudget& error) {
          over.add(error);
        }
      }
      open = std::move(undecided);
    }
    if (best(budget) == nullptr) over.rethrow_if_any();
  }

  [[noreturn]] void fail_in_time(Budget budget) const {
    const std::string where = meshes.size() == 1 ? "a " + shape_text(meshes[0]) + " mesh" : "any mesh";
    const std::string what = budget ? fmt::format(" that fits into {} bytes per device", *budget) : "";
    const std::string when =
        time.is_stopped() ? fmt::format("before planning was stopped after {:.3g} seconds", time.elapsed())
        : time.is_over()
            ? fmt::format("in {:.3g} seconds", time.elapsed())
            : fmt::format("though {:.3g} of {:.3g} seconds are left", time.left(), time.limit());
    const char* help = time.is_over() ? "allow more seconds" : "use a method with fewer choices";
    throw OverBudget(fmt::format("method {}: no plan on {}{} was found {}; {}{}", options.method, where,
                                 what, when, help, budget ? " or more bytes" : ""));
  }
};

AutoSharding::AutoSharding(const Graph& graph, const std::vector<DeviceMesh>& meshes,
                           const CostModel& model, const AutoShardOptions& options, PlanningCache* cache)
    : impl_(new Impl(graph, meshes, model, options, cache)) {
  require(!meshes.empty(), "auto_shard: no mesh to plan for");
}

AutoSharding::~AutoSharding() = default;

ShardingPlan AutoSharding::plan(std::optional<std::int64_t> memory_budget_bytes) {
  return impl_->plan(memory_budget_bytes);
}

bool AutoSharding::is_over() const { return impl_->time.is_over(); }

ShardingPlan auto_shard(const Graph& graph, const DeviceMesh& mesh, const CostModel& model,
                        const AutoShardOptions& options, PlanningCache* cache) {
  return auto_shard(graph, std::vector<DeviceMesh>{mesh}, model, options, cache);
}

ShardingPlan auto_shard(const Graph& graph, const std::vector<DeviceMesh>& meshes, const CostModel& model,
                        const AutoShardOptions& options, PlanningCache* cache) {
  return AutoSharding(graph, meshes, model, options, cache).plan(options.memory_budget_bytes);
}

}  // namespace alpa
