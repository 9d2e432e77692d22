#pragma once
/// Costs of ranges of layers on parts of the cluster. Lower bounds come first; plans are made only
/// of the ranges that the search for stages asks for. One thread at a time.
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "alpa/mesh/cluster.h"
#include "alpa/plan/pipeline_plan.h"
#include "src/base/infinity.h"
#include "src/base/thread_team.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/plan/facts/graph_facts.h"
#include "src/search/bound/partition_costs.h"
#include "src/search/bound/step_bound.h"
#include "src/search/space/planning_time.h"
#include "src/search/stages/byte_prices.h"
#include "src/search/stages/layer_ranges.h"
#include "src/search/stages/plan_stage.h"
#include "src/search/stages/recomputable.h"
#include "src/search/tuning.h"

namespace alpa {

/// A range of layers (its class) on a part of the cluster, with so many micro-batches in flight.
struct RangeQuery {
  int range = 0;  ///< number of its class
  int part = 0;   ///< index of the submesh
  int in_flight = 1;
  int graph = 0;  ///< for StageSearch: of the graphs whose ranges stages may be
};

/// Memory, parts of the cluster and meshes that ranges may use.
struct RangeSpace {
  std::int64_t budget = 0;  ///< bytes of a device
  std::vector<inter_op::Submesh> parts;
  std::vector<std::vector<int>> mesh_shapes;  ///< logical ones; empty: all
  /// For bounds alone: what layers may keep, or compute again. Null: nothing.
  const inter_op::RecomputableBytes* recomputable = nullptr;
};

/// A plan of a range, for stages of equal graphs on equal parts.
struct RangePlan {
  std::uint64_t graph_hash = 0;  ///< layer_hash of the graph that it was made for
  ShardingPlan plan;
};

/// True if the mesh has one of these shapes, or there are none.
bool is_allowed(const DeviceMesh& mesh, const std::vector<std::vector<int>>& shapes);

class RangeCosts {
 public:
  /// `graph` and what `planning` refers to must outlive this.
  RangeCosts(const Graph& graph, const Cluster& cluster, const RangeSpace& space,
             const PlanningContext& planning);

  const inter_op::LayerRanges& ranges() const { return ranges_; }
  /// Parts of the space that have a logical mesh.
  const std::vector<inter_op::Submesh>& parts() const { return parts_; }

  /// Kinds of costs that can be asked for.
  enum class Ask : std::uint8_t {
    least,   ///< the best plan if it is known, else a bound of the range, or of its parts together
    proven,  ///< a bound alone: plans that gave up speed to fit the memory count by theirs
  };

  /// Seconds of a micro-batch. Infinite: no plan fits the memory.
  double seconds(const RangeQuery& query, Ask ask = Ask::least);

  /// Lower bounds on forward and backward of a micro-batch, in seconds.
  inter_op::LeastRuns least_runs(int range, int part) const {
    return runs_[range * parts_.size() + part];
  }

  /// For the stage search: all ranges, with one configuration per number of micro-batches in
  /// flight at which their seconds rise. `in_flight`: the numbers asked for, ascending; none: any.
  inter_op::PartitionCosts table(Ask ask, const std::vector<int>& in_flight = {});

  /// Seconds of a micro-batch as they are expected, by plans of a range of about as many layers on
  /// the same part. Infinite: there is none, or it is not expected to fit the memory.
  double estimated_seconds(const RangeQuery& query);
  inter_op::PartitionCosts estimates(const std::vector<int>& in_flight);

  /// Raises the bounds of the ranges by one step each: of its layers on all logical meshes of the
  /// part, then of blocks of layers and of the range on the most promising one. Uses all cores.
  /// False: there is no step left, or time is over.
  bool bound(const std::vector<RangeQuery>& queries);

  /// Bounds each layer that the model repeats, on every part on which it may take less than
  /// `seconds` a micro-batch. Uses all cores.
  void bound_layers(double seconds);

  /// Takes over bounds of the same step with fewer micro-batches, if these are a divisor.
  void take_bounds(const RangeCosts& of_fewer);

  /// How well a range is planned.
  struct Effort {
    double cutoff_seconds = kInfinity;  ///< only plans of less seconds of a step matter
    /// If the best plan has too much memory, others are sought for this share of the time left: to
    /// find out that there are none may take any time.
    double memory_share = search::kTuning.stage_search.memory_share;
    bool first_plan = false;      ///< SearchLimits::first_plan; it can be planned better later
    bool outlasts_clock = false;  ///< PlanningTime::rest_for_first_plan
  };

  /// Plans the range on all logical meshes of the part. False: it is planned.
  bool plan(const RangeQuery& query, const Effort& effort);

  /// Seconds of a micro-batch under the best plan, with its share of what runs once per step;
  /// infinite: no plan fits the memory. The range must have been planned.
  double planned_seconds(const RangeQuery& query);
  /// The parts of these seconds; null: no plan fits.
  const StageSeconds* planned_parts(const RangeQuery& query);

  /// The best plan of a planned range that fits the memory; null: there is none.
  std::shared_ptr<const RangePlan> found_plan(const RangeQuery& query);

  /// True if any plan gave up speed to fit the memory; its seconds are no proven bound.
  bool is_memory_bound() const { return is_memory_bound_; }
  /// For dual bounds.
  int num_searches() const { return num_searches_; }
  /// Different ranges on logical meshes.
  int num_ranges() const { return static_cast<int>(known_.size()); }
  /// The end of the search.
  const intra_op::PlanningTime& time() const { return time_; }
  void end_after(double work_seconds, double clock_seconds) {
    time_.end_after(work_seconds, clock_seconds);
  }

 private:
  struct Plan {
    int planned_for = 0;     ///< micro-batches in flight; 0: planned without a budget
    double lower_bound = 0;  ///< seconds with so many in flight, or more
    double seconds = 0;
    int most_in_flight = 0;
    intra_op::CountedBytes bytes = {};
    StageSeconds parts = {};
    std::shared_ptr<const RangePlan> found = nullptr;
  };
  /// How a bound was found: as a sum of those of parts, from the least that every node takes, or by
  /// the dual bound.
  enum class Level : std::uint8_t { parts, strategies, dual };
  /// Lower bound of a range on a logical mesh.
  struct Known {
    double bound = 0;  ///< seconds are at least this
    Level level = Level::parts;
  };
  /// A range on a part of the cluster, on the best of its logical meshes.
  struct Planned {
    std::vector<Plan> plans;        ///< with more and more micro-batches in flight
    std::vector<Plan> first_plans;  ///< likewise, Effort::first_plan: no bound is made of them
    int none_from = std::numeric_limits<int>::max();  ///< micro-batches in flight
    bool none_proven = false;  ///< nothing fits from there on, whatever the plan is
  };
  struct Relaxed {
    inter_op::RelaxedRange range;
    intra_op::AutoShardOptions options;
    std::string key;
    intra_op::SharedFacts facts;
  };

  Known& known(int range, int mesh) { return known_[range * meshes_.size() + mesh]; }
  Planned& planned(const RangeQuery& query) {
    return planned_[query.range * parts_.size() + query.part];
  }
  struct Estimate {
    double seconds = 0;  ///< of a micro-batch
    int most_in_flight = 0;
  };
  double kept_weight(int range) const;
  Estimate estimate(int range, int part, int of, const Plan& plan);
  int nearest_planned(int range, int part) const;
  double estimated_by(int of, const RangeQuery& query);
  static const Plan* plan_of(const std::vector<Plan>& plans, int in_flight);
  double proven_of(const Planned& planned, const RangeQuery& query);
  const Plan* fitting_plan(const RangeQuery& query);
  double bound_of(const RangeQuery& query);
  BytesInFlight in_flight(const RangeQuery& query) const;
  double least_again(const RangeQuery& query) const;
  double least_within(const RangeQuery& query, int mesh);
  double least_within(const RangeQuery& query);
  void sum_prices(int mesh);
  bool is_bound_by_memory(const RangeQuery& query, int mesh);
  std::optional<int> next_price(const RangeQuery& query, int mesh);
  int promising_mesh(const RangeQuery& query);
  void raise_bounds();
  void rule_out_what_cannot_fit();
  void begin_with_even_parts();
  /// Lower bound on a micro-batch for devices that share a range's operators evenly.
  struct EvenPart {
    cost::LeastSeconds forward, backward, apply;
    StageSeconds launched;  ///< by the host
    void add(const EvenPart& other);
    inter_op::LeastRuns runs(int devices) const;
    double seconds(int devices) const;           ///< of all, without launches by the host
    double launched_seconds(int devices) const;  ///< with them
  };
  EvenPart even_part(const Relaxed& relaxed) const;
  /// A bound by itself.
  struct BoundOf {
    int range = 0, mesh = 0;
    Level level = Level::parts;
    int price = BytePrices::kFree;
  };
  bool bound(const RangeQuery& query);
  std::vector<BoundOf> priced_layers(const RangeQuery& query, int mesh);
  bool bound_priced(const RangeQuery& query, int mesh);
  std::vector<double> mesh_bounds(const RangeQuery& query);
  bool append_unknown(inter_op::LayerRanges::Range range, int layers, int mesh, Level level,
                      std::vector<BoundOf>& bounds);
  void append_bounds(const RangeQuery& query, std::vector<BoundOf>& bounds);
  std::vector<BoundOf> blocks_of(inter_op::LayerRanges::Range range, int layers, int mesh,
                                 Level level) const;
  void find_together(const std::vector<BoundOf>& bounds);
  bool bound_blocks(inter_op::LayerRanges::Range range, int layers, int mesh, Level level);
  bool bound_on(int range, int mesh, Level level);
  const Relaxed& relaxed(int range);
  double relaxed_bound(const BoundOf& of);
  std::function<double()> question_of(const BoundOf& of, const Relaxed& relaxed) const;
  struct PlannedRange;
  void add_plan(std::vector<Plan>& plans, int planned_for, const PlannedRange& range,
                ShardingPlan plan);

  const Graph& graph_;
  const std::int64_t budget_;
  const inter_op::RecomputableBytes* const recomputable_;
  const PlanningContext& planning_;
  intra_op::PlanningTime time_;
  const inter_op::LayerRanges ranges_;
  std::vector<inter_op::Submesh> parts_;
  std::vector<inter_op::HeldBytes> held_;   ///< per range
  std::vector<double> recomputable_bytes_;  ///< of a micro-batch, per range
  std::vector<DeviceMesh> meshes_;
  std::vector<intra_op::MeshFacts*> mesh_facts_;  ///< per mesh
  std::vector<int> first_mesh_;                   ///< per part, and an end
  std::vector<Known> known_;                      ///< per range and mesh
  /// Per range and part, seconds with launches by the host. Unlike other bounds they do not add up.
  std::vector<double> launched_;
  std::vector<inter_op::LeastRuns> runs_;  ///< per range and part, even parts
  std::vector<Planned> planned_;           ///< per range and part
  std::map<int, Relaxed> relaxed_;
  ThreadTeam team_{usable_cores()};
  /// of relaxed ranges, by key, mesh, level and price
  std::map<std::tuple<std::string, int, Level, int>, double> relaxed_bounds_;
  std::vector<BytePrices> prices_;  ///< per mesh
  bool is_memory_bound_ = false;
  int num_searches_ = 0;
};

}  // namespace alpa
