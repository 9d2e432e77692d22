// src/spmd/traffic.cc — calls and bytes of a partitioned program's communication
#include <algorithm>

#include "rewrite.h"
#include "src/ir/op_def.h"
#include "src/plan/cost/collective.h"

namespace alpa::spmd {
namespace {

int group_size(const SpmdProgram& program, const Node& node) {
  int size = 1;
  for (std::int64_t axis : node.attributes.integers("axes"))
    size *= program.mesh_of(node).size(static_cast<int>(axis));
  return size;
}

/// Traffic by kind of collective and device.
using Sent = std::map<std::string, std::map<int, Traffic>>;

void add_collective(const SpmdProgram& program, const Node& node, int runs, Sent& sent) {
  const CollectiveKind kind = *node.op->reshard;
  Traffic& entry = sent[std::string(name_of(kind))][program.mesh_of(node).devices().front()];
  entry.count += runs;
  entry.bytes +=
      runs * cost::collective_sent_bytes(kind, static_cast<double>(payload_bytes(program, node)),
                                         group_size(program, node));
}

void add_transfer(const SpmdProgram& program, const Node& node, int runs, Sent& sent) {
  const TensorType& type = program.graph.type(node.results[0]);
  for (const cost::TransferTile& tile : transfer_tiles(program, node)) {
    Traffic& entry = sent[std::string(node.op->name)][tile.from];
    entry.count += runs;
    entry.bytes += runs * static_cast<double>(TensorType{type.dtype, tile.extent}.bytes());
  }
}

}  // namespace

std::map<std::string, Traffic> traffic(const SpmdProgram& program) {
  Sent sent;
  const std::vector<bool> once = once_before(program);
  for (std::size_t n = 0; n < once.size(); ++n) {
    const Node& node = program.graph.nodes[n];
    const int runs = once[n] ? 1 : runs_per_step(program.graph, node);
    if (is_collective(node)) add_collective(program, node, runs, sent);
    if (is_transfer(node)) add_transfer(program, node, runs, sent);
  }
  std::map<std::string, Traffic> most;
  for (const auto& [kind, by_device] : sent)
    for (const auto& [device, entry] : by_device) {
      most[kind].count = std::max(most[kind].count, entry.count);
      most[kind].bytes = std::max(most[kind].bytes, entry.bytes);
    }
  return most;
}

}  // namespace alpa::spmd
