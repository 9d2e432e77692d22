// What no plan of a graph on a mesh takes less than
#include "src/search/sharding/quick_bound.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "src/base/infinity.h"
#include "src/ilp/dual/dual_bound.h"
#include "src/search/program/instance.h"
#include "src/search/sharding/templates.h"
#include "src/search/tuning.h"

namespace alpa::intra_op {

std::function<double()> quick_bound(SharedFacts graph, const AutoShardOptions& options,
                                    MeshFacts& facts, bool quick, BytePrice price) {
  std::optional<SearchSpace> space;
  try {
    space = search_space(graph, options, facts);
  } catch (const Error&) {  // the options cannot be followed on the mesh
    return [] { return kInfinity; };
  }
  if (quick) return [seconds = least_seconds(graph->graph, *space)] { return seconds; };
  const auto instance = std::make_shared<const Instance>(
      price.seconds > 0
          ? build_priced_instance(graph->graph, *space, facts.mesh, price.budget, price.seconds)
          : build_instance(graph->graph, *space, facts.mesh));
  return [problem = std::shared_ptr<const ilp::Problem>(instance, &instance->problem),
          units_per_second = instance->units_per_second] {
    const std::int64_t bound = ilp::dual_bound(*problem, search::kTuning.quick_bound.sweeps);
    return bound >= ilp::kInfinite ? kInfinity
                                   : std::max(0.0, static_cast<double>(bound) / units_per_second);
  };
}

}  // namespace alpa::intra_op
