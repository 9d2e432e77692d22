#pragma once
/// What ranges of layers cost on parts of the cluster. Lower bounds come first; plans are made only
/// of the ranges that the search for stages asks for. One thread at a time.
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "alpa/mesh/cluster.h"
#include "src/base/timing.h"
#include "src/inter_op/layer_ranges.h"
#include "src/inter_op/stage_search.h"
#include "stage_planning.h"

namespace alpa {

/// A range of layers (its class) on a part of the cluster, with so many micro-batches in flight.
struct RangeQuery {
  int range = 0;  ///< number of its class
  int part = 0;   ///< index of the submesh
  int in_flight = 1;
};

/// What ranges may use.
struct RangeSpace {
  std::int64_t budget = 0;  ///< bytes of a device
  std::vector<inter_op::Submesh> parts;
  std::vector<std::vector<int>> mesh_shapes;  ///< logical ones; empty: all
};

/// Whether the mesh has one of these shapes, or there are none.
bool is_allowed(const DeviceMesh& mesh, const std::vector<std::vector<int>>& shapes);

class RangeCosts {
 public:
  /// `graph` and what `planning` refers to must outlive this.
  RangeCosts(const Graph& graph, const Cluster& cluster, const RangeSpace& space,
             const StagePlanning& planning);

  const inter_op::LayerRanges& ranges() const { return ranges_; }
  /// Those of the space that have a logical mesh.
  const std::vector<inter_op::Submesh>& parts() const { return parts_; }

  /// Bounds single layers on all parts. False: time was over before.
  bool bound_layers();

  /// Seconds of a micro-batch that no plan takes less than: the best plan if it is known, else the
  /// bound of the range, or of its parts together. Infinite: no plan keeps the memory. With
  /// `final_only` also where the range has no search of its own.
  double least_seconds(const RangeQuery& query, bool final_only = false);

  /// For the stage search: all ranges, with one configuration per number of micro-batches in
  /// flight at which their seconds rise.
  inter_op::StageCosts table(bool final_only);

  /// Searches for the bound of the range on its most promising logical meshes. False: it is known.
  bool bound(const RangeQuery& query);

  /// Plans the range on its most promising logical meshes. False: it is planned.
  bool plan(const RangeQuery& query);

  /// Seconds of a micro-batch under the best plan, with its share of what runs once per step;
  /// infinite: no plan keeps the memory. The range must have been planned.
  double planned_seconds(const RangeQuery& query);

  /// Whether any plan gave up speed to keep the memory; its seconds are no proven bound.
  bool is_memory_bound() const { return is_memory_bound_; }
  int num_searches() const { return num_searches_; }
  /// Different ranges on logical meshes.
  int num_ranges() const { return static_cast<int>(known_.size()); }
  double seconds_left() const;

 private:
  struct Plan {
    double lower_bound = 0, seconds = 0;
    int most_in_flight = 0;
  };
  /// What is known of a range on a logical mesh.
  struct Known {
    double bound = 0;         ///< seconds are at least this
    bool is_bounded = false;  ///< by a search of its own
    std::vector<Plan> plans;  ///< with more and more micro-batches in flight
    int none_from = std::numeric_limits<int>::max();  ///< micro-batches in flight
  };

  Known& known(int range, int mesh) { return known_[range * meshes_.size() + mesh]; }
  intra_op::AutoShardOptions options_left() const;
  static const Plan* plan_of(const Known& known, int in_flight);
  static double least(const Known& known, int in_flight);
  int promising_mesh(const RangeQuery& query);
  void raise_bounds();
  bool refine(int range, int mesh);
  bool bound_on(int range, int mesh);
  bool plan_on(const RangeQuery& query, int mesh);
  double relaxed_bound(int range, int first_mesh, int end_mesh);

  const Graph& graph_;
  const std::int64_t budget_;
  const StagePlanning& planning_;
  const Stopwatch watch_;
  const inter_op::LayerRanges ranges_;
  std::vector<inter_op::Submesh> parts_;
  std::vector<DeviceMesh> meshes_;
  std::vector<int> first_mesh_;  ///< per part, and an end
  std::vector<Known> known_;     ///< per range and mesh
  /// of relaxed ranges, by key and meshes
  std::map<std::tuple<std::string, int, int>, double> relaxed_bounds_;
  bool is_memory_bound_ = false;
  int num_searches_ = 0;
};

}  // namespace alpa
