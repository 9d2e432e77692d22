#pragma once
/// A tensor on its way from one mesh to another: which device sends what to which, and what that costs.
#include <cstdint>
#include <vector>

#include "alpa/base/shape.h"
#include "alpa/mesh/cluster.h"
#include "alpa/mesh/sharding_spec.h"

namespace alpa {

/// Where a tensor is: on the devices of a mesh, in a spec that is not partial.
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

/// What every device of `to` needs, cut along the shards of `from`: each box comes from one of the devices
/// that hold it, the one with the fewest bytes to send so far. By receiver, then by the place of the shard;
/// empty boxes are left out. Throws Bug if one of the specs is partial.
std::vector<TransferTile> transfer_tiles(const TensorType& type, const MeshLayout& from,
                                         const MeshLayout& to);

struct TransferCost {
  double bytes = 0;    ///< that cross from one mesh to the other
  double seconds = 0;  ///< until the busiest device is done: latency per box and its bytes, either way
};
/// `link`: what a device has to the other mesh.
TransferCost transfer_cost(const TensorType& type, const MeshLayout& from, const MeshLayout& to,
                           const Link& link);

/// The link between devices of two meshes of a cluster: within a host if all of them are on one, else the
/// slower one. Ids count host by host.
Link link_between(const Cluster& cluster, const DeviceMesh& a, const DeviceMesh& b);

}  // namespace alpa
