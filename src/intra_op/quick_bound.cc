// src/intra_op/quick_bound.cc — what no plan of a graph on a mesh takes less than
#include "src/intra_op/quick_bound.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "instance.h"
#include "planning_facts.h"
#include "src/base/infinity.h"
#include "src/ilp/dual_bound.h"
#include "templates.h"

namespace alpa::intra_op {
namespace {

/// Layers are within 1e-4 of their optimum after about ten.
constexpr int kSweeps = 24;

/// `bound(space)`; infinite if the options cannot be followed on the mesh.
template <class Bound>
double bound_in_space(const Graph& graph, const DeviceMesh& mesh, const cost::CostModel& model,
                      const AutoShardOptions& options, PlanningCache& cache, const Bound& bound) {
  MeshFacts& facts = cache.facts().of(mesh, allowed_model(model, options));
  std::optional<SearchSpace> space;
  try {
    space = search_space(std::make_shared<GraphFacts>(graph, &cache.facts().rules, options.loops),
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
    const std::int64_t bound = ilp::dual_bound(instance.problem, kSweeps);
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
