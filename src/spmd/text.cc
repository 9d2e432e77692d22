// src/spmd/text.cc — text form and traffic of partitioned programs
#include <fmt/ranges.h>

#include "src/spmd/program.h"

namespace alpa::spmd {

std::string to_string(const SpmdProgram& program) {
  const Graph& graph = program.graph;
  std::string text;
  const bool several = program.meshes.size() > 1;
  for (const DeviceMesh& mesh : program.meshes) {
    text += "mesh " + shape_text(mesh);
    if (several) text += fmt::format(" of devices {}", fmt::join(mesh.devices(), " "));
    text += "\n";
  }
  text += "graph micro_batches=" + std::to_string(graph.num_micro_batches) + "\n";
  for (const Node& node : graph.nodes) {
    text += to_string(graph, node) + " ->";
    for (std::size_t i = 0; i < node.results.size(); ++i)
      text += (i > 0 ? ", " : " ") + to_string(program.specs[node.results[i]]);
    if (several) text += fmt::format(" on mesh {}", program.mesh_index(node.results[0]));
    text += "\n";
  }
  for (const Update& update : graph.updates)
    text += fmt::format("update %{} = %{}\n", update.input, update.value);
  for (const Metric& metric : graph.metrics)
    text += fmt::format("metric \"{}\" = %{}\n", metric.name, metric.value);
  for (const Output& output : graph.outputs)
    text += fmt::format("output \"{}\" = %{}\n", output.name, output.value);
  return text;
}

}  // namespace alpa::spmd
