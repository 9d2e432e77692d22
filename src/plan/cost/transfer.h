#pragma once
/// Transfer of a tensor from one mesh to another: the boxes that devices send each other, the ways
/// to send them, and what they cost (arXiv 2211.05322).
#include <cstdint>
#include <string_view>
#include <vector>

#include "alpa/base/shape.h"
#include "alpa/mesh/cluster.h"
#include "alpa/mesh/sharding_spec.h"
#include "src/plan/cost/reshard.h"

namespace alpa::cost {

/// A tensor's mesh, and its spec there, which is not partial.
struct MeshLayout {
  const DeviceMesh& mesh;
  ShardingSpec spec;
};

/// How the boxes of a transfer travel.
struct TransferRoute {
  /// Hosts have consecutive devices; 0: all devices are on one host.
  int devices_per_host = 0;
  /// 0: every device is sent its own copy. Otherwise broadcast: the first device that needs a box
  /// is sent it in this many chunks, and each passes them on to the next.
  int chunks = 0;

  bool operator==(const TransferRoute&) const = default;
};

/// A box that one device sends to another, in the coordinates of the whole tensor.
struct TransferTile {
  int from = -1, to = -1;  ///< device ids
  Shape begin, extent;
  bool passed_on = false;  ///< `from` received it by an earlier tile
  bool operator==(const TransferTile&) const = default;
};

/// The boxes of a transfer: each receiver's shard, cut along the shards of `from`; without empty
/// boxes. A box comes from the device holding it that has the fewest bytes to send so far, then
/// from the host with the fewest. The order balances the load: boxes that can move at the same
/// time, between different devices and different hosts, follow each other. A tile that is passed on
/// comes after the one that brings it. Throws Bug if a spec is partial.
std::vector<TransferTile> transfer_tiles(const TensorType& type, const MeshLayout& from,
                                         const MeshLayout& to, const TransferRoute& route = {});

struct TransferCost {
  double bytes = 0;    ///< that cross from one mesh to the other
  double seconds = 0;  ///< until the last box has arrived
};
/// The cost of a transfer whose devices send one box at a time, and receive one at a time, in the
/// order of the tiles. A box takes the latency of its link and the time of its bytes.
TransferCost transfer_cost(const TensorType& type, const MeshLayout& from, const MeshLayout& to,
                           const Cluster& cluster, const TransferRoute& route = {});

enum class TransferStrategy : std::uint8_t {
  send_receive,      ///< every device is sent what it needs
  local_all_gather,  ///< devices are sent parts, which their mesh gathers
  local_reshard,     ///< the same with other collectives as well
  broadcast,         ///< devices pass on, in chunks, what others need as well
};
/// "send_receive", …
std::string_view name_of(TransferStrategy strategy);

/// A way to move a tensor: it arrives in a spec, and is resharded to the one that is wanted.
struct PlannedTransfer {
  TransferStrategy strategy = TransferStrategy::send_receive;
  TransferRoute route;
  ShardingSpec arrives;
  ReshardPath gather;  ///< on the receiving mesh; mostly empty
  TransferCost cost;   ///< with the gather's seconds
};

/// The cheapest way, over all specs in which the tensor may arrive, sent directly or broadcast.
/// Ties: directly in the spec wanted, then the order of `all_specs`.
PlannedTransfer plan_transfer(const TensorType& type, const MeshLayout& from, const MeshLayout& to,
                              const Cluster& cluster);

/// The least seconds of any way to move `bytes` from one mesh to another, whatever the specs, over
/// a link between every two devices: one latency, and the smaller mesh's share of the bytes.
double least_transfer_seconds(double bytes, int senders, int receivers, const Link& link);

/// The link between the devices of two meshes of a cluster: the one within a host if all are on one
/// host, else the slower one. Device ids are numbered host by host.
Link link_between(const Cluster& cluster, const DeviceMesh& a, const DeviceMesh& b);
Link link_between(const Cluster& cluster, bool on_one_host);

}  // namespace alpa::cost
