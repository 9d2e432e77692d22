#pragma once
/// Transfer of a tensor from one mesh to another: the boxes that devices send
/// each other, and their cost.
#include <cstdint>
#include <vector>

#include "alpa/base/shape.h"
#include "alpa/mesh/cluster.h"
#include "alpa/mesh/sharding_spec.h"

namespace alpa::cost {

/// A tensor's mesh, and its spec there, which is not partial.
struct MeshLayout {
  const DeviceMesh& mesh;
  ShardingSpec spec;
};

/// A box that one device sends to another, in the coordinates of the whole tensor.
struct TransferTile {
  int from = -1, to = -1;  ///< device ids
  Shape begin, extent;
  bool operator==(const TransferTile&) const = default;
};

/// The boxes of a transfer: each receiver's shard, cut along the shards of `from`. A box comes from
/// the device holding it that has the fewest bytes to send so far. Sorted by receiver, then by
/// position of the shard; without empty boxes. Throws Bug if a spec is partial.
std::vector<TransferTile> transfer_tiles(const TensorType& type, const MeshLayout& from,
                                         const MeshLayout& to);

struct TransferCost {
  double bytes = 0;  ///< that cross from one mesh to the other
  /// of the busiest device: latency per box plus time for its bytes, sent or received
  double seconds = 0;
};
/// The cost of a transfer; `link` connects each device with the other mesh.
TransferCost transfer_cost(const TensorType& type, const MeshLayout& from, const MeshLayout& to,
                           const Link& link);

/// The link between the devices of two meshes of a cluster: the one within a host if all are on one
/// host, else the slower one. Device ids are numbered host by host.
Link link_between(const Cluster& cluster, const DeviceMesh& a, const DeviceMesh& b);

}  // namespace alpa::cost
