// src/cost/transfer.cc — splits a tensor sent between meshes into boxes, one sender for each
#include "src/cost/transfer.h"

#include <algorithm>
#include <map>

#include "alpa/base/error.h"

namespace alpa::cost {
namespace {

struct Box {
  Shape begin, extent;
  bool operator<(const Box& other) const {
    return begin != other.begin ? begin < other.begin : extent < other.extent;
  }
};

Box shard_of(const Shape& shape, const MeshLayout& layout, int rank) {
  const std::vector<int> at = layout.mesh.coordinates(rank);
  return {local_offset(shape, layout.spec, layout.mesh, at),
          local_shape(shape, layout.spec, layout.mesh, at)};
}

/// The intersection; `extent` has a 0 if it is empty.
Box intersection(const Box& a, const Box& b) {
  Box common = a;
  for (std::size_t d = 0; d < a.begin.size(); ++d) {
    common.begin[d] = std::max(a.begin[d], b.begin[d]);
    const std::int64_t end = std::min(a.begin[d] + a.extent[d], b.begin[d] + b.extent[d]);
    common.extent[d] = std::max<std::int64_t>(end - common.begin[d], 0);
  }
  return common;
}

/// A distinct shard and the devices that hold it.
using Owners = std::map<Box, std::vector<int>>;

Owners owners_of(const Shape& shape, const MeshLayout& layout) {
  Owners owners;
  for (int rank = 0; rank < layout.mesh.num_devices(); ++rank)
    owners[shard_of(shape, layout, rank)].push_back(layout.mesh.devices()[rank]);
  return owners;
}

bool on_one_host(const Cluster& cluster, const DeviceMesh& a, const DeviceMesh& b) {
  const int host = a.devices().front() / cluster.devices_per_host;
  const auto there = [&](int device) { return device / cluster.devices_per_host == host; };
  return std::all_of(a.devices().begin(), a.devices().end(), there) &&
         std::all_of(b.devices().begin(), b.devices().end(), there);
}

}  // namespace

std::vector<TransferTile> transfer_tiles(const TensorType& type, const MeshLayout& from,
                                         const MeshLayout& to) {
  invariant(!from.spec.is_partial() && !to.spec.is_partial(), "transfer of {} from {} to {}",
            to_string(type), to_string(from.spec), to_string(to.spec));
  const Owners owners = owners_of(type.shape, from);
  std::map<int, std::int64_t> sent;  // elements, by device
  std::vector<TransferTile> tiles;
  for (int rank = 0; rank < to.mesh.num_devices(); ++rank) {
    const Box wanted = shard_of(type.shape, to, rank);
    for (const auto& [shard, devices] : owners) {
      Box tile = intersection(shard, wanted);
      const std::int64_t elements = TensorType{type.dtype, tile.extent}.elements();
      if (elements == 0) continue;
      const int sender = *std::min_element(devices.begin(), devices.end(),
                                           [&](int a, int b) { return sent[a] < sent[b]; });
      sent[sender] += elements;
      tiles.push_back(
          {sender, to.mesh.devices()[rank], std::move(tile.begin), std::move(tile.extent)});
    }
  }
  return tiles;
}

TransferCost transfer_cost(const TensorType& type, const MeshLayout& from, const MeshLayout& to,
                           const Link& link) {
  TransferCost cost;
  std::map<std::pair<bool, int>, double> busy;  // by direction and device
  for (const TransferTile& tile : transfer_tiles(type, from, to)) {
    const auto bytes = static_cast<double>(TensorType{type.dtype, tile.extent}.bytes());
    cost.bytes += bytes;
    for (double* seconds : {&busy[{true, tile.from}], &busy[{false, tile.to}]})
      *seconds += link.alpha_seconds + bytes * link.beta_seconds_per_byte;
  }
  for (const auto& [device, seconds] : busy) cost.seconds = std::max(cost.seconds, seconds);
  return cost;
}

Link link_between(const Cluster& cluster, const DeviceMesh& a, const DeviceMesh& b) {
  if (on_one_host(cluster, a, b)) return cluster.within_host;
  return {std::max(cluster.within_host.alpha_seconds, cluster.between_hosts.alpha_seconds),
          std::max(cluster.within_host.beta_seconds_per_byte,
                   cluster.between_hosts.beta_seconds_per_byte)};
}

}  // namespace alpa::cost
