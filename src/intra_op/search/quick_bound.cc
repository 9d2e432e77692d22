// What no plan of a graph on a mesh takes less than
#include "src/intra_op/search/quick_bound.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "src/base/infinity.h"
#include "src/ilp/dual/dual_bound.h"
#include "src/intra_op/facts/tuning.h"
#include "src/intra_op/program/instance.h"
#include "src/intra_op/search/templates.h"
#include "src/intra_op/space/planning_facts.h"

namespace alpa::intra_op {
namespace {

/// `bound(space)`; infinite if the options cannot be followed on the mesh.
template <class Bound>
double bound_in_space(const Graph& graph, const DeviceMesh& mesh, const cost::CostModel& model,
                      const AutoShardOptions& options, PlanningCache& cache, const Bound& bound) {
  MeshFacts& facts = cache.facts().of(mesh, allowed_model(model, options));
  std::optional<SearchSpace> space;
  try {
    space =
        search_space(std::make_shared<GraphFacts>(graph, &cache.facts().rules, options.part.loops),
                     options, facts);
  } catch (const Error&) {
    return kInfinity;
  }
  return bound(*space);
}

}  // namespace

double quick_bound(const Graph& graph, const DeviceMesh& mesh, const cost::CostModel& model,
                   const AutoShardOptions& options, PlanningCache& cache) {
  return bound_in_space(graph, mesh, model, options, cache, [&](const SearchSpace& space) {
    const Instance instance = build_instance(graph, space, mesh);
    const std::int64_t bound = ilp::dual_bound(instance.problem, kTuning.quick_bound.sweeps);
    return bound >= ilp::kInfinite
               ? kInfinity
               : std::max(0.0, static_cast<double>(bound) / instance.units_per_second);
  });
}

double least_seconds_on(const Graph& graph, const DeviceMesh& mesh, const cost::CostModel& model,
                        const AutoShardOptions& options, PlanningCache& cache) {
  return bound_in_space(graph, mesh, model, options, cache,
                        [&](const SearchSpace& space) { return least_seconds(graph, space); });
}

}  // namespace alpa::intra_op
