// src/spmd/traffic.cc — what a partitioned program sends
#include "rewrite.h"

namespace alpa {
namespace {

int group_size(const SpmdProgram& program, const Node& node) {
  int size = 1;
  for (std::int64_t axis : node.attributes.integers("axes"))
    size *= program.mesh_of(node).size(static_cast<int>(axis));
  return size;
}

}  // namespace

std::map<std::string, Traffic> traffic(const SpmdProgram& program) {
  std::map<std::string, Traffic> total;
  for (const Node& node : program.graph.nodes) {
    if (!is_collective(node)) continue;
    const CollectiveKind kind = collective_kind(node);
    const int runs = runs_per_step(program.graph, node);
    Traffic& entry = total[std::string(name_of(kind))];
    entry.count += runs;
    entry.bytes += runs * collective_sent_bytes(kind, static_cast<double>(payload_bytes(program, node)),
                                                group_size(program, node));
  }
  return total;
}

}  // namespace alpa
