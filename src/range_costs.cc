// src/range_costs.cc — bounds and plans of ranges of layers
//
// The relaxed problem of a range (inter_op/layer_ranges.h) bounds it alone and inside a longer
// range, so bounds of parts add up. In chains of layers it costs what the range does, up to what
// happens at the ends. Hence few ranges must be solved by themselves: those that the best stages
// under the current bounds use.
#include "range_costs.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "alpa/base/error.h"
#include "src/intra_op/layer_table.h"
#include "stage_plan.h"

namespace alpa {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// Layers that are bounded together before a longer range is.
constexpr int kBlock = 4;
/// Relative gap that suffices for a single layer on all logical meshes of a part.
constexpr double kLayerGap = 0.05;
/// Share of the time left for one range whose best plan has too much memory: to find out that there
/// is no other may take any time.
constexpr double kMemoryShare = 0.02;

}  // namespace

bool is_allowed(const DeviceMesh& mesh, const std::vector<std::vector<int>>& shapes) {
  std::vector<int> shape;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) shape.push_back(mesh.size(axis));
  return shapes.empty() || std::find(shapes.begin(), shapes.end(), shape) != shapes.end();
}

RangeCosts::RangeCosts(const Graph& graph, const Cluster& cluster, const RangeSpace& space,
                       const StagePlanning& planning)
    : graph_(graph), budget_(space.budget), planning_(planning), ranges_(graph) {
  for (const inter_op::Submesh& part : space.parts) {
    std::vector<int> devices(part.num_devices());
    std::iota(devices.begin(), devices.end(), 0);
    const auto first = static_cast<int>(meshes_.size());
    for (DeviceMesh& mesh : logical_meshes(cluster, part, devices))
      if (is_allowed(mesh, space.mesh_shapes)) meshes_.push_back(std::move(mesh));
    if (static_cast<int>(meshes_.size()) == first) continue;
    parts_.push_back(part);
    first_mesh_.push_back(first);
  }
  first_mesh_.push_back(static_cast<int>(meshes_.size()));
  known_.resize(ranges_.classes() * meshes_.size());
}

double RangeCosts::seconds_left() const {
  const bool stopped = planning_.options.stop && *planning_.options.stop;
  return stopped ? 0 : std::max(0.0, planning_.options.time_limit_seconds - watch_.seconds());
}

intra_op::AutoShardOptions RangeCosts::options_left() const {
  intra_op::AutoShardOptions options = planning_.options;
  options.time_limit_seconds = seconds_left();
  return options;
}

const RangeCosts::Plan* RangeCosts::plan_of(const Known& known, int in_flight) {
  for (const Plan& plan : known.plans)
    if (plan.most_in_flight >= in_flight) return &plan;
  return nullptr;
}

double RangeCosts::least(const Known& known, int in_flight) {
  if (in_flight >= known.none_from) return kNever;
  if (known.plans.empty()) return known.bound;
  const double proven = std::max(known.bound, known.plans.front().lower_bound);
  const Plan* plan = plan_of(known, in_flight);
  if (plan == &known.plans.front() || known.plans.size() == 1) return proven;
  return std::max(proven, (plan ? plan : &known.plans.back())->seconds);
}

double RangeCosts::least_seconds(const RangeQuery& query, bool final_only) {
  double seconds = kNever;
  for (int mesh = first_mesh_[query.part]; mesh < first_mesh_[query.part + 1]; ++mesh) {
    const Known& of = known(query.range, mesh);
    if (!final_only || of.is_bounded) seconds = std::min(seconds, least(of, query.in_flight));
  }
  return seconds;
}

int RangeCosts::promising_mesh(const RangeQuery& query) {
  const auto seconds = [&](int mesh) { return least(known(query.range, mesh), query.in_flight); };
  int best = first_mesh_[query.part];
  for (int mesh = best; mesh < first_mesh_[query.part + 1]; ++mesh)
    if (seconds(mesh) < seconds(best)) best = mesh;
  return best;
}

bool RangeCosts::bound_layers() {
  for (int layer = 0; layer < ranges_.layers(); ++layer)
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      const int range = ranges_.class_of(layer, layer);
      const int first = first_mesh_[part], end = first_mesh_[part + 1];
      if (known(range, first).bound > 0) continue;
      if (seconds_left() <= 0) return false;
      const double bound = relaxed_bound(range, first, end);
      for (int mesh = first; mesh < end; ++mesh) known(range, mesh).bound = bound;
      known(range, first).is_bounded = end - first == 1;
    }
  return true;
}

/// A range costs at least what its parts do.
void RangeCosts::raise_bounds() {
  for (int range = 0; range < ranges_.classes(); ++range) {
    const auto [first, last] = ranges_.example(range);
    for (int cut = first; cut < last; ++cut) {
      const int before = ranges_.class_of(first, cut), after = ranges_.class_of(cut + 1, last);
      for (int mesh = 0; mesh < static_cast<int>(meshes_.size()); ++mesh) {
        double& bound = known(range, mesh).bound;
        bound = std::max(bound, known(before, mesh).bound + known(after, mesh).bound);
      }
    }
  }
}

inter_op::StageCosts RangeCosts::table(bool final_only) {
  raise_bounds();
  std::set<int> limits = {graph_.num_micro_batches};  // where seconds of any range may rise
  for (const Known& of : known_) {
    for (const Plan& plan : of.plans) limits.insert(plan.most_in_flight);
    if (of.none_from <= graph_.num_micro_batches) limits.insert(of.none_from - 1);
  }
  limits.erase(0);
  inter_op::StageCosts costs(ranges_.layers(), static_cast<int>(parts_.size()),
                             static_cast<int>(limits.size()));
  for (int first = 0; first < costs.layers; ++first)
    for (int last = first; last < costs.layers; ++last)
      for (int part = 0; part < costs.submeshes; ++part) {
        int configuration = 0;
        for (int in_flight : limits) {
          const std::size_t at = costs.index(first, last, part, configuration++);
          costs.seconds[at] =
              least_seconds({ranges_.class_of(first, last), part, in_flight}, final_only);
          costs.max_in_flight[at] = in_flight;
        }
      }
  return costs;
}

bool RangeCosts::bound(const RangeQuery& query) {
  bool any = false;
  while (seconds_left() > 0 && refine(query.range, promising_mesh(query))) any = true;
  return any;
}

/// Bounds single layers of the range first, then blocks of a few, then the range.
bool RangeCosts::refine(int range, int mesh) {
  if (known(range, mesh).is_bounded) return false;
  const auto [first, last] = ranges_.example(range);
  for (const int block : {1, kBlock}) {
    if (last - first < block) break;
    bool any = false;
    double sum = 0;
    for (int begin = first; begin <= last; begin += block) {
      const int part = ranges_.class_of(begin, std::min(begin + block - 1, last));
      any |= bound_on(part, mesh);
      sum += known(part, mesh).bound;
    }
    known(range, mesh).bound = std::max(known(range, mesh).bound, sum);
    if (any) return true;
  }
  return bound_on(range, mesh);
}

bool RangeCosts::bound_on(int range, int mesh) {
  Known& of = known(range, mesh);
  if (of.is_bounded) return false;
  of.is_bounded = true;
  of.bound = std::max(of.bound, relaxed_bound(range, mesh, mesh + 1));
  return true;
}

/// Seconds of a micro-batch that no range of this class takes less than on these meshes, alone or
/// inside a longer range.
double RangeCosts::relaxed_bound(int range, int first_mesh, int end_mesh) {
  ++num_searches_;
  const inter_op::RelaxedRange relaxed = ranges_.relaxed(ranges_.example(range));
  intra_op::AutoShardOptions options = options_left();
  options.whole_boundary_inputs = false;
  options.batch_mesh_axis = {};  // only the whole graph tells the batch of a layer
  options.loops = &relaxed.loops;
  if (end_mesh - first_mesh > 1) options.relative_gap = std::max(options.relative_gap, kLayerGap);
  const std::string key = intra_op::table_key({relaxed.graph, {}, relaxed.loops}, options);
  const auto [place, added] = relaxed_bounds_.try_emplace({key, first_mesh, end_mesh});
  if (!added) return place->second;
  const std::vector<DeviceMesh> meshes(meshes_.begin() + first_mesh, meshes_.begin() + end_mesh);
  const ShardingPlan plan =
      intra_op::auto_shard(relaxed.graph, meshes, planning_.model, options, &planning_.cache);
  return place->second = plan.cost.lower_bound_seconds / graph_.num_micro_batches;
}

bool RangeCosts::plan(const RangeQuery& query) {
  bool any = false;
  while (plan_on(query, promising_mesh(query))) any = true;
  return any;
}

bool RangeCosts::plan_on(const RangeQuery& query, int mesh) {
  Known& of = known(query.range, mesh);
  if (query.in_flight >= of.none_from || plan_of(of, query.in_flight)) return false;
  const inter_op::StageGraph stage = ranges_.graph_of(ranges_.example(query.range));
  const Graph& graph = stage.graph;
  const auto add = [&](const StageLimit& limit) {
    intra_op::AutoShardOptions options = options_left();
    options.boundary_batch_dims = stage.batch_dims;
    if (limit.bytes == budget_) options.time_limit_seconds *= kMemoryShare;
    const ShardingPlan plan =
        plan_stage(graph, {meshes_[mesh]}, limit, {planning_.model, options, planning_.cache});
    const StageBytes bytes = counted_bytes(graph, plan);
    int most = 0;
    while (most < graph_.num_micro_batches && bytes.with(most + 1) <= budget_) ++most;
    of.plans.push_back({plan.cost.lower_bound_seconds / graph_.num_micro_batches,
                        plan.cost.objective_seconds / graph_.num_micro_batches, most});
  };
  if (of.plans.empty()) {
    add({std::numeric_limits<std::int64_t>::max(), 1});
    return true;
  }
  try {
    add({budget_, query.in_flight});
  } catch (const intra_op::OverBudget&) {
    of.none_from = query.in_flight;
  }
  is_memory_bound_ = true;
  return true;
}

double RangeCosts::planned_seconds(const RangeQuery& query) {
  const Known& of = known(query.range, promising_mesh(query));
  const Plan* plan = query.in_flight < of.none_from ? plan_of(of, query.in_flight) : nullptr;
  return plan ? plan->seconds : kNever;
}

}  // namespace alpa
