// src/lower/messages.cc — the boxes of all transfers, device by device
#include "src/lower/messages.h"

#include <utility>

namespace alpa::lower {
namespace {

/// Number of each mesh among the meshes with the same devices.
std::vector<int> chunks_of(const spmd::SpmdProgram& program) {
  std::vector<int> chunks(program.meshes.size());
  for (const std::vector<int>& group : spmd::mesh_groups(program))
    for (std::size_t chunk = 0; chunk < group.size(); ++chunk)
      chunks[group[chunk]] = static_cast<int>(chunk);
  return chunks;
}

}  // namespace

Messages::Messages(const spmd::SpmdProgram& program) {
  const std::vector<int> chunks = chunks_of(program);
  // One per region and pair of meshes, because lists of different meshes of one device take turns
  // in another order on the other device.
  const auto lane_of = [&](const Node& transfer) {
    const int from = chunks[program.mesh_index(transfer.operands[0])],
              to = chunks[program.mesh_index(transfer.results[0])];
    return (from * static_cast<int>(chunks.size()) + to) * 3 + static_cast<int>(transfer.region);
  };
  for (int n = 0; n < static_cast<int>(program.graph.nodes.size()); ++n) {
    const Node& node = program.graph.nodes[n];
    if (!spmd::is_transfer(node)) continue;
    const int lane = lane_of(node);
    std::map<int, DeviceMessages>& of_device = of_[n];
    for (cost::TransferTile& tile : spmd::transfer_tiles(program, node)) {
      DeviceMessages& sender = of_device[tile.from];
      (tile.passed_on ? sender.passed_on : sender.sends)
          .push_back({tile.to, lane, tile.begin, tile.extent, tile.passed_on});
      of_device[tile.to].receives.push_back(
          {tile.from, lane, std::move(tile.begin), std::move(tile.extent)});
    }
  }
}

const DeviceMessages& Messages::of(int n, int device) const {
  static const DeviceMessages kNone;
  const std::map<int, DeviceMessages>& of_device = of_.at(n);
  const auto own = of_device.find(device);
  return own == of_device.end() ? kNone : own->second;
}

}  // namespace alpa::lower
