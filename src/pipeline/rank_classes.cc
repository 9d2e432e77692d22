// src/pipeline/rank_classes.cc — devices whose parts of all values have the same shapes
#include "alpa/pipeline/rank_classes.h"

#include <set>

#include "alpa/ops/all_ops.h"

namespace alpa {
namespace {

struct Layout {
  const Shape* shape;
  const ShardingSpec* spec;
};

/// One of each that mesh `mesh` has: repeated layers have few.
std::vector<Layout> distinct_layouts(const SpmdProgram& program, int mesh) {
  std::set<std::pair<Shape, std::string>> seen;
  std::vector<Layout> layouts;
  for (std::size_t v = 0; v < program.specs.size(); ++v) {
    if (program.mesh_index(static_cast<int>(v)) != mesh) continue;
    const Shape& shape = program.graph.values[v].type.shape;
    if (seen.emplace(shape, to_string(program.specs[v])).second)
      layouts.push_back({&shape, &program.specs[v]});
  }
  return layouts;
}

/// Axes along which the first device keeps a value where the others make zeros.
std::set<int> axes_to_partial(const SpmdProgram& program, int mesh) {
  std::set<int> axes;
  for (const Node& node : program.graph.nodes)
    if (node.op->reshard == ReshardKind::to_partial && program.mesh_index(node.results[0]) == mesh)
      axes.insert(static_cast<int>(node.attributes.integers("axes")[0]));
  return axes;
}

}  // namespace

std::vector<int> first_devices_of_classes(const SpmdProgram& program) {
  std::vector<int> devices;
  for (int m = 0; m < static_cast<int>(program.meshes.size()); ++m) {
    const DeviceMesh& mesh = program.meshes[m];
    const std::vector<Layout> layouts = distinct_layouts(program, m);
    const std::set<int> first_matters = axes_to_partial(program, m);
    std::set<std::vector<std::int64_t>> classes;
    for (int rank = 0; rank < mesh.num_devices(); ++rank) {
      const std::vector<int> at = mesh.coordinates(rank);
      std::vector<std::int64_t> key;
      for (int axis : first_matters) key.push_back(at[axis] == 0);
      for (const Layout& layout : layouts) {
        const Shape part = local_shape(*layout.shape, *layout.spec, mesh, at);
        key.insert(key.end(), part.begin(), part.end());
      }
      if (classes.insert(std::move(key)).second) devices.push_back(mesh.devices()[rank]);
    }
  }
  return devices;
}

}  // namespace alpa
