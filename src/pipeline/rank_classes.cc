// src/pipeline/rank_classes.cc — devices whose parts of all values have the same shapes
#include "alpa/pipeline/rank_classes.h"

#include <map>
#include <set>

#include "alpa/ops/all_ops.h"

namespace alpa {
namespace {

struct Layout {
  const Shape* shape;
  const ShardingSpec* spec;
};

/// One of each: repeated layers have few.
std::vector<Layout> distinct_layouts(const SpmdProgram& program) {
  std::set<std::pair<Shape, std::string>> seen;
  std::vector<Layout> layouts;
  for (std::size_t v = 0; v < program.specs.size(); ++v) {
    const Shape& shape = program.graph.values[v].type.shape;
    if (seen.emplace(shape, to_string(program.specs[v])).second)
      layouts.push_back({&shape, &program.specs[v]});
  }
  return layouts;
}

/// Axes along which the first device keeps a value where the others make zeros.
std::set<int> axes_to_partial(const Graph& graph) {
  std::set<int> axes;
  for (const Node& node : graph.nodes)
    if (node.op == &ops::to_partial) axes.insert(static_cast<int>(node.attributes.integers("axes")[0]));
  return axes;
}

}  // namespace

std::vector<int> first_ranks_of_classes(const SpmdProgram& program) {
  const std::vector<Layout> layouts = distinct_layouts(program);
  const std::set<int> first_matters = axes_to_partial(program.graph);
  std::map<std::vector<std::int64_t>, int> classes;
  std::vector<int> ranks;
  for (int rank = 0; rank < program.mesh.num_devices(); ++rank) {
    const std::vector<int> at = program.mesh.coordinates(rank);
    std::vector<std::int64_t> key;
    for (int axis : first_matters) key.push_back(at[axis] == 0);
    for (const Layout& layout : layouts) {
      const Shape part = local_shape(*layout.shape, *layout.spec, program.mesh, at);
      key.insert(key.end(), part.begin(), part.end());
    }
    if (classes.emplace(std::move(key), rank).second) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace alpa
