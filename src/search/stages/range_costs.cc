// src/search/stages/range_costs.cc — bounds and plans of ranges of layers
//
// The relaxed problem of a range (layer_ranges.h) bounds it alone and inside a longer
// range, so bounds of parts add up. In chains of layers it costs what the range does, up to what
// happens at the ends. Hence few ranges must be solved by themselves: those that the best stages
// under the current bounds use.
#include "src/search/stages/range_costs.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "src/ir/subgraph.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/plan/evaluation/stage_seconds.h"
#include "src/search/layers/layer_table.h"
#include "src/search/sharding/quick_bound.h"
#include "src/search/stages/stage_meshes.h"
#include "src/search/tuning.h"

namespace alpa {
bool is_allowed(const DeviceMesh& mesh, const std::vector<std::vector<int>>& shapes) {
  std::vector<int> shape;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) shape.push_back(mesh.size(axis));
  return shapes.empty() || std::find(shapes.begin(), shapes.end(), shape) != shapes.end();
}

RangeCosts::RangeCosts(const Graph& graph, const Cluster& cluster, const RangeSpace& space,
                       const PlanningContext& planning)
    : graph_(graph),
      budget_(space.budget),
      recomputable_(space.recomputable),
      planning_(planning),
      time_(planning.options.limits),
      ranges_(graph) {
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
  const cost::CostModel model = intra_op::allowed_model(planning_.model, planning_.options);
  for (const DeviceMesh& mesh : meshes_) mesh_facts_.push_back(&planning_.cache.of(mesh, model));
  prices_.resize(meshes_.size());
  known_.resize(ranges_.classes() * meshes_.size());
  planned_.resize(ranges_.classes() * parts_.size());
  rule_out_what_cannot_fit();
  begin_with_even_parts();
}

void RangeCosts::EvenPart::add(const EvenPart& other) {
  const auto sum = [](cost::LeastSeconds& to, const cost::LeastSeconds& seconds) {
    to.shared += seconds.shared, to.own += seconds.own;
  };
  sum(forward, other.forward), sum(backward, other.backward), sum(apply, other.apply);
  launched.forward += other.launched.forward;
  launched.backward += other.launched.backward;
}

inter_op::LeastRuns RangeCosts::EvenPart::runs(int devices) const {
  return {std::max(forward.shared / devices + forward.own, launched.forward),
          std::max(backward.shared / devices + backward.own, launched.backward)};
}

double RangeCosts::EvenPart::seconds(int devices) const {
  return (forward.shared + backward.shared + apply.shared) / devices + forward.own + backward.own +
         apply.own;
}

double RangeCosts::EvenPart::launched_seconds(int devices) const {
  return std::max(forward.shared / devices + forward.own, launched.forward) +
         std::max(backward.shared / devices + backward.own, launched.backward) +
         apply.shared / devices + apply.own;
}

/// Devices share every operator evenly at best. Without this first bound, a large cluster's
/// thousands of ranges would all look free, and be searched one after the other.
void RangeCosts::begin_with_even_parts() {
  const bool launches = planning_.model.software.operator_seconds > 0;
  std::vector<EvenPart> of_layers;
  for (int layer = 0; layer < ranges_.layers(); ++layer) {
    const int range = ranges_.class_of(layer, layer), first = ranges_.example(range).first;
    of_layers.push_back(first < layer ? of_layers[first] : even_part(relaxed(range)));
  }
  for (int range = 0; range < ranges_.classes(); ++range) {
    const auto [first, last] = ranges_.example(range);
    EvenPart sum;
    for (int layer = first; layer <= last; ++layer) sum.add(of_layers[layer]);
    for (int mesh = 0; mesh < static_cast<int>(meshes_.size()); ++mesh)
      known(range, mesh).bound = sum.seconds(meshes_[mesh].num_devices());
    for (const inter_op::Submesh& part : parts_) {
      launched_.push_back(launches ? sum.launched_seconds(part.num_devices()) : 0);
      runs_.push_back(sum.runs(part.num_devices()));
    }
  }
}

RangeCosts::EvenPart RangeCosts::even_part(const Relaxed& relaxed) const {
  int most_devices = 1;
  for (const DeviceMesh& mesh : meshes_) most_devices = std::max(most_devices, mesh.num_devices());
  const Graph& graph = relaxed.range.graph;
  const intra_op::NodeClasses& classes = relaxed.facts->classes;
  EvenPart sum;
  sum.launched = launched_seconds(graph, planning_.model.software);
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const Node& node = graph.nodes[n];
    const cost::LeastSeconds least = intra_op::least_node_seconds(
        classes.of(n), classes.share_of(n), most_devices, planning_.model);
    const double runs = static_cast<double>(runs_per_step(graph, node)) / graph_.num_micro_batches;
    cost::LeastSeconds& of_region = node.region == Region::forward    ? sum.forward
                                    : node.region == Region::backward ? sum.backward
                                                                      : sum.apply;
    of_region.shared += runs * least.shared, of_region.own += runs * least.own;
  }
  return sum;
}

/// No plan holds less of a range on a device than its even part.
void RangeCosts::rule_out_what_cannot_fit() {
  for (int range = 0; range < ranges_.classes(); ++range) {
    held_.push_back(ranges_.held(ranges_.example(range)));
    double& bytes = recomputable_bytes_.emplace_back(0);
    const auto [first, last] = ranges_.example(range);
    for (int layer = first; layer <= last && recomputable_; ++layer)
      bytes += recomputable_->of_layers[layer];
    const inter_op::HeldBytes held = held_.back();
    for (int part = 0; part < static_cast<int>(parts_.size()); ++part) {
      const double room = static_cast<double>(budget_) * parts_[part].num_devices() - held.always;
      Planned& of = planned({range, part});
      if (room < 0)
        of.none_from = 1;
      else if (held.per_micro_batch * graph_.num_micro_batches > room)
        of.none_from = static_cast<int>(room / held.per_micro_batch) + 2;
      of.none_proven = true;
    }
  }
}

const RangeCosts::Plan* RangeCosts::plan_of(const std::vector<Plan>& plans, int in_flight) {
  for (const Plan& plan : plans)
    if (plan.most_in_flight >= in_flight) return &plan;
  return nullptr;
}

double RangeCosts::bound_of(const RangeQuery& query) {
  double bound = kInfinity;
  for (int mesh = first_mesh_[query.part]; mesh < first_mesh_[query.part + 1]; ++mesh)
    bound = std::min(bound, known(query.range, mesh).bound);
  return std::max(bound, launched_[query.range * parts_.size() + query.part]);
}

/// The least that each device holds of them.
BytesInFlight RangeCosts::in_flight(const RangeQuery& query) const {
  const double devices = parts_[query.part].num_devices();
  return {.count = query.in_flight,
          .kept = held_[query.range].per_micro_batch / devices,
          .recomputable = recomputable_bytes_[query.range] / devices,
          .seconds_per_byte = recomputable_->seconds_per_byte};
}

/// Lower bound on the seconds of a micro-batch in which layers are computed again, because not all
/// fits that a range may keep for so many micro-batches.
double RangeCosts::least_again(const RangeQuery& query) const {
  const BytesInFlight bytes = in_flight(query);
  const double state = held_[query.range].always / parts_[query.part].num_devices();
  const double kept = (static_cast<double>(budget_) - state) / query.in_flight - bytes.kept;
  const double again = bytes.recomputable - std::max(0.0, kept);
  return again > 0 ? bytes.seconds_per_byte * again : 0;
}

/// Lower bound on the seconds of a micro-batch on the mesh, within the memory of its devices.
double RangeCosts::least_within(const RangeQuery& query, int mesh) {
  const auto [first, last] = ranges_.example(query.range);
  return std::max(known(query.range, mesh).bound + least_again(query),
                  prices_[mesh].least(first, last, in_flight(query), static_cast<double>(budget_)));
}

double RangeCosts::least_within(const RangeQuery& query) {
  double least = kInfinity;
  for (int mesh = first_mesh_[query.part]; mesh < first_mesh_[query.part + 1]; ++mesh)
    least = std::min(least, least_within(query, mesh));
  return least;
}

void RangeCosts::sum_prices(int mesh) {
  std::vector<double> seconds, filled;
  for (int layer = 0; layer < ranges_.layers(); ++layer) {
    seconds.push_back(known(ranges_.class_of(layer, layer), mesh).bound);
    filled.push_back(held_[ranges_.class_of(layer, layer)].always /
                     (static_cast<double>(budget_) * meshes_[mesh].num_devices()));
  }
  prices_[mesh].sum(seconds, filled);
}

/// True if better bounds of seconds alone, of several layers together, would be of no use.
bool RangeCosts::is_bound_by_memory(const RangeQuery& query, int mesh) {
  return recomputable_ && least_within(query, mesh) > search::kTuning.range_costs.blocks_raise *
                                                          known(query.range, mesh).bound;
}

/// The next price for these layers; none where all fits, however state is laid out.
std::optional<int> RangeCosts::next_price(const RangeQuery& query, int mesh) {
  const inter_op::LayerRanges::Range range = ranges_.example(query.range);
  const BytesInFlight bytes = in_flight(query);
  if (held_[query.range].always + bytes.count * (bytes.kept + bytes.recomputable) <=
      static_cast<double>(budget_))
    return std::nullopt;
  sum_prices(mesh);
  return prices_[mesh].next(range.first, range.last, bytes, static_cast<double>(budget_),
                            known(query.range, mesh).bound);
}

double RangeCosts::seconds(const RangeQuery& query, Ask ask) {
  const Planned& of = planned(query);
  if (query.in_flight >= of.none_from && (of.none_proven || ask != Ask::proven)) return kInfinity;
  if (of.plans.empty()) return bound_of(query);
  const double proven = proven_of(of, query);
  if (ask == Ask::proven) return proven;
  const Plan* plan = plan_of(of.plans, query.in_flight);
  if (plan == &of.plans.front() || of.plans.size() == 1) return proven;
  return std::max(proven, (plan ? plan : &of.plans.back())->seconds);
}

double RangeCosts::proven_of(const Planned& planned, const RangeQuery& query) {
  double proven = bound_of(query);
  for (const Plan& plan : planned.plans)
    if (plan.planned_for <= query.in_flight) proven = std::max(proven, plan.lower_bound);
  return proven;
}

int RangeCosts::promising_mesh(const RangeQuery& query) {
  int best = first_mesh_[query.part];
  for (int mesh = best; mesh < first_mesh_[query.part + 1]; ++mesh)
    if (recomputable_ ? least_within(query, mesh) < least_within(query, best)
                      : known(query.range, mesh).bound < known(query.range, best).bound)
      best = mesh;
  return best;
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

inter_op::PartitionCosts RangeCosts::table(Ask ask, const std::vector<int>& in_flight) {
  raise_bounds();
  std::set<int> limits = {graph_.num_micro_batches};  // where seconds of any range may rise
  if (recomputable_)  // with every micro-batch: the steps are at most a quarter
    for (int most = 1; most < graph_.num_micro_batches; most += 1 + most / 5) limits.insert(most);
  for (const Planned& of : planned_) {
    if (recomputable_) break;
    for (const Plan& plan : of.plans) limits.insert(plan.most_in_flight);
    if (of.none_from <= graph_.num_micro_batches) limits.insert(of.none_from - 1);
  }
  if (!in_flight.empty()) {
    std::set<int> asked;  // the last ones before seconds rise
    for (const int limit : limits) {
      const auto above = std::upper_bound(in_flight.begin(), in_flight.end(), limit);
      if (above != in_flight.begin()) asked.insert(*std::prev(above));
    }
    limits = std::move(asked);
  }
  limits.erase(0);
  for (int mesh = 0; recomputable_ && mesh < std::ssize(meshes_); ++mesh) sum_prices(mesh);
  inter_op::PartitionCosts costs(ranges_.layers(), ranges_.class_numbers(),
                                 static_cast<int>(parts_.size()), static_cast<int>(limits.size()));
  for (int range = 0; range < costs.classes; ++range)
    for (int part = 0; part < costs.submeshes; ++part) {
      int configuration = 0, least = 1;  // in flight
      for (const int limit : limits) {
        const std::size_t at = costs.index(range, part, configuration++);
        costs.seconds[at] = recomputable_ ? std::max(seconds({range, part, least}, ask),
                                                     least_within({range, part, least}))
                                          : seconds({range, part, limit}, ask);
        costs.max_in_flight[at] = limit;
        least = limit + 1;
      }
    }
  return costs;
}

/// A range by itself, and the search for its plans: without a budget, then within one.
struct RangeCosts::PlannedRange {
  PlannedRange(const RangeCosts& costs, const RangeQuery& query, const Effort& effort,
               const std::vector<double>& bounds)
      : stage(costs.ranges_.graph_of(costs.ranges_.example(query.range))),
        search(stage.graph,
               {costs.meshes_.begin() + costs.first_mesh_[query.part],
                costs.meshes_.begin() + costs.first_mesh_[query.part + 1]},
               costs.planning_.model, options_of(costs, stage, query, effort, bounds),
               &costs.planning_.cache) {}

  static intra_op::AutoShardOptions options_of(const RangeCosts& costs,
                                               const inter_op::RangeGraph& stage,
                                               const RangeQuery& query, const Effort& effort,
                                               const std::vector<double>& bounds) {
    intra_op::AutoShardOptions options = costs.planning_.options;
    options.limits = effort.outlasts_clock ? costs.time_.rest_for_first_plan() : costs.time_.rest();
    options.limits.cutoff_seconds = effort.cutoff_seconds;
    options.limits.first_plan = effort.first_plan;
    options.part.in_flight = query.in_flight;
    options.memory_budget_bytes = costs.budget_;
    options.part.boundary_batch_dims = stage.batch_dims;
    options.part.mesh_bounds = bounds;
    return options;
  }

  const inter_op::RangeGraph stage;
  intra_op::AutoSharding search;
};

bool RangeCosts::plan(const RangeQuery& query, const Effort& effort) {
  Planned& of = planned(query);
  if (query.in_flight >= of.none_from || plan_of(of.plans, query.in_flight)) return false;
  std::vector<Plan>& plans = effort.first_plan ? of.first_plans : of.plans;
  if (plan_of(plans, query.in_flight)) return false;
  const bool is_late = effort.outlasts_clock ? time_.is_over_for_first_plan()
                       : effort.first_plan   ? time_.is_over()
                                             : time_.is_long_over();
  if (is_late) return false;
  PlannedRange range(*this, query, effort, mesh_bounds(query));
  try {
    if (plans.empty()) {
      add_plan(plans, 0, range, range.search.plan());
      if (plan_of(plans, query.in_flight)) return true;
    }
    range.search.end_within(range.search.work_left() * effort.memory_share);
    add_plan(plans, query.in_flight, range, range.search.plan(budget_));
  } catch (const intra_op::OverBudget& error) {
    if (const Plan* first = plan_of(of.first_plans, query.in_flight)) {
      of.plans.push_back(*first);  // there is none better within the time
      of.plans.back().lower_bound = 0;
      return true;
    }
    of.none_from = query.in_flight;
    of.none_proven = error.why == intra_op::NoPlan::proven && error.least_bytes > budget_;
  }
  is_memory_bound_ = true;
  return true;
}

void RangeCosts::add_plan(std::vector<Plan>& plans, int planned_for, const PlannedRange& range,
                          ShardingPlan plan) {
  const Graph& graph = range.stage.graph;
  const intra_op::CountedBytes bytes = intra_op::counted_bytes(plan, graph);
  int most = 0;
  while (most < graph_.num_micro_batches && bytes.with(most + 1) <= budget_) ++most;
  const StageSeconds parts = stage_seconds(plan, graph, planning_.model);
  double seconds = plan.cost.objective_seconds / graph_.num_micro_batches;
  if (planning_.model.software.operator_seconds > 0)  // which the objective leaves out
    seconds = parts.forward + parts.backward + parts.apply / graph_.num_micro_batches;
  plans.push_back(
      {planned_for, plan.cost.lower_bound_seconds / graph_.num_micro_batches, seconds, most, bytes,
       parts, std::make_shared<const RangePlan>(RangePlan{layer_hash(graph), std::move(plan)})});
}

const RangeCosts::Plan* RangeCosts::fitting_plan(const RangeQuery& query) {
  const Planned& of = planned(query);
  if (query.in_flight >= of.none_from) return nullptr;
  const Plan* plan = plan_of(of.plans, query.in_flight);
  const Plan* first = plan_of(of.first_plans, query.in_flight);
  return !plan || (first && first->seconds < plan->seconds) ? first : plan;
}

std::shared_ptr<const RangePlan> RangeCosts::found_plan(const RangeQuery& query) {
  const Plan* plan = fitting_plan(query);
  return plan ? plan->found : nullptr;
}

double RangeCosts::planned_seconds(const RangeQuery& query) {
  const Plan* plan = fitting_plan(query);
  return plan ? plan->seconds : kInfinity;
}

const StageSeconds* RangeCosts::planned_parts(const RangeQuery& query) {
  const Plan* plan = fitting_plan(query);
  return plan ? &plan->parts : nullptr;
}

}  // namespace alpa
