// src/plan/cost/transfer.cc — splits a tensor sent between meshes into boxes, one sender for each
#include "src/plan/cost/transfer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>

#include "alpa/base/error.h"
#include "src/plan/cost/cost_model.h"

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

std::int64_t elements_of(const Shape& extent) {
  return std::accumulate(extent.begin(), extent.end(), std::int64_t{1}, std::multiplies<>());
}

/// Distinct shards, and the devices that hold each.
using Owners = std::map<Box, std::vector<int>>;

Owners owners_of(const Shape& shape, const MeshLayout& layout) {
  Owners owners;
  for (int rank = 0; rank < layout.mesh.num_devices(); ++rank)
    owners[shard_of(shape, layout, rank)].push_back(layout.mesh.devices()[rank]);
  return owners;
}

/// The shards that a box may meet. They are a grid: every dimension is cut into intervals.
class ShardGrid {
 public:
  explicit ShardGrid(const Owners& owners)
      : owners_(owners), cuts_(owners.begin()->first.begin.size()) {
    for (const auto& [box, devices] : owners)
      for (std::size_t d = 0; d < cuts_.size(); ++d) cuts_[d].insert({box.begin[d], box.extent[d]});
  }

  /// Calls visit(common box, devices) for every shard that has a part of `wanted`, in their order.
  template <class Visit>
  void visit_common(const Box& wanted, const Visit& visit) const {
    Box shard = wanted;
    visit_from(0, wanted, shard, visit);
  }

 private:
  template <class Visit>
  void visit_from(std::size_t d, const Box& wanted, Box& shard, const Visit& visit) const {
    if (d == cuts_.size()) {
      const auto found = owners_.find(shard);
      if (found == owners_.end()) return;
      Box common = intersection(shard, wanted);
      if (elements_of(common.extent) > 0) visit(std::move(common), found->second);
      return;
    }
    for (const auto& [begin, extent] : cuts_[d]) {
      if (begin >= wanted.begin[d] + wanted.extent[d]) return;
      if (begin + extent <= wanted.begin[d]) continue;
      shard.begin[d] = begin;
      shard.extent[d] = extent;
      visit_from(d + 1, wanted, shard, visit);
    }
  }

  const Owners& owners_;
  std::vector<std::set<std::pair<std::int64_t, std::int64_t>>> cuts_;  ///< begin and extent
};

bool on_one_host(const Cluster& cluster, const DeviceMesh& a, const DeviceMesh& b) {
  const int host = a.devices().front() / cluster.devices_per_host;
  const auto there = [&](int device) { return device / cluster.devices_per_host == host; };
  return std::all_of(a.devices().begin(), a.devices().end(), there) &&
         std::all_of(b.devices().begin(), b.devices().end(), there);
}

int host_of(const TransferRoute& route, int device) {
  return route.devices_per_host > 0 ? device / route.devices_per_host : 0;
}

/// Elements that devices and hosts have to send so far.
class Loads {
 public:
  explicit Loads(const TransferRoute& route) : route_(route) {}

  /// The least loaded of these devices, and then of their hosts; it is given `elements` more.
  int sender(const std::vector<int>& devices, std::int64_t elements) {
    const auto load = [&](int device) {
      return std::pair(of_device_[device], of_host_[host_of(route_, device)]);
    };
    const int sender = *std::min_element(devices.begin(), devices.end(),
                                         [&](int a, int b) { return load(a) < load(b); });
    of_device_[sender] += elements;
    of_host_[host_of(route_, sender)] += elements;
    return sender;
  }

 private:
  const TransferRoute& route_;
  std::map<int, std::int64_t> of_device_, of_host_;
};

/// The box in at most `count` parts along its longest dimension.
std::vector<Box> chunks_of(const Box& box, int count) {
  if (box.extent.empty()) return {box};
  const auto longest = std::max_element(box.extent.begin(), box.extent.end());
  const auto dim = static_cast<std::size_t>(longest - box.extent.begin());
  const std::int64_t size = (*longest + count - 1) / count;
  std::vector<Box> chunks;
  for (std::int64_t begin = 0; begin < *longest; begin += size) {
    Box chunk = box;
    chunk.begin[dim] += begin;
    chunk.extent[dim] = std::min(size, *longest - begin);
    chunks.push_back(std::move(chunk));
  }
  return chunks;
}

/// A tile, and the one that brings what it passes on; -1: none.
struct OrderedTile {
  TransferTile tile;
  int behind = -1;
};

/// Every receiver gets its boxes from those who hold them.
std::vector<OrderedTile> direct_tiles(const Owners& sources, const Owners& targets,
                                      const TransferRoute& route) {
  Loads loads(route);
  const ShardGrid grid(sources);
  std::map<int, std::vector<OrderedTile>> of_receiver;
  for (const auto& [wanted, receivers] : targets)
    for (int receiver : receivers)
      grid.visit_common(wanted, [&](Box box, const std::vector<int>& devices) {
        of_receiver[receiver].push_back({{loads.sender(devices, elements_of(box.extent)), receiver,
                                          std::move(box.begin), std::move(box.extent)}});
      });
  std::vector<OrderedTile> tiles;
  for (auto& [receiver, own] : of_receiver)
    std::move(own.begin(), own.end(), std::back_inserter(tiles));
  return tiles;
}

/// Every box goes from the device that holds it along a chain of those that need it.
std::vector<OrderedTile> chained_tiles(const Owners& sources, const Owners& targets,
                                       const TransferRoute& route) {
  Loads loads(route);
  const ShardGrid grid(sources);
  std::vector<OrderedTile> tiles;
  for (const auto& entry : targets) {
    const std::vector<int>& receivers = entry.second;
    grid.visit_common(entry.first, [&](const Box& box, const std::vector<int>& devices) {
      const int sender = loads.sender(devices, elements_of(box.extent));
      for (const Box& chunk : chunks_of(box, route.chunks))
        for (std::size_t i = 0; i < receivers.size(); ++i)
          tiles.push_back(
              {{i == 0 ? sender : receivers[i - 1], receivers[i], chunk.begin, chunk.extent, i > 0},
               i == 0 ? -1 : static_cast<int>(tiles.size()) - 1});
    });
  }
  return tiles;
}

using OrderedTiles = std::vector<OrderedTile>;

/// The rounds in which a device sends or receives, or a host exchanges boxes with others.
class BusyRounds {
 public:
  void add(std::size_t round) {
    words_.resize(std::max(words_.size(), round / kBits + 1));
    words_[round / kBits] |= std::uint64_t{1} << round % kBits;
  }

  /// The first round from `round` on in which nobody is busy.
  static std::size_t first_free(const std::vector<const BusyRounds*>& all, std::size_t round) {
    std::uint64_t busy = (std::uint64_t{1} << round % kBits) - 1;
    for (std::size_t word = round / kBits;; ++word, busy = 0) {
      for (const BusyRounds* one : all)
        if (word < one->words_.size()) busy |= one->words_[word];
      if (~busy != 0) return word * kBits + std::countr_one(busy);
    }
  }

 private:
  static constexpr std::size_t kBits = 64;
  std::vector<std::uint64_t> words_;
};

/// Rounds of tiles in which no device sends or receives twice, and no host exchanges boxes with
/// other hosts twice: each tile, in order, takes the first in which all are free, behind the tile
/// that brings it.
std::vector<TransferTile> in_rounds(const OrderedTiles& tiles, const TransferRoute& route) {
  int devices = 0;
  for (const auto& [tile, behind] : tiles)
    devices = std::max({devices, tile.from + 1, tile.to + 1});
  std::vector<BusyRounds> sends(devices), receives(devices), hosts(devices);
  std::vector<std::size_t> round_of(tiles.size(), 0), order(tiles.size());
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    const auto& [tile, behind] = tiles[t];
    std::vector<BusyRounds*> taken{&sends[tile.from], &receives[tile.to]};
    const int from = host_of(route, tile.from), to = host_of(route, tile.to);
    if (from != to) taken.insert(taken.end(), {&hosts[from], &hosts[to]});
    round_of[t] =
        BusyRounds::first_free({taken.begin(), taken.end()}, behind < 0 ? 0 : round_of[behind] + 1);
    for (BusyRounds* one : taken) one->add(round_of[t]);
  }
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return round_of[a] < round_of[b]; });
  std::vector<TransferTile> ordered;
  for (const std::size_t t : order) ordered.push_back(tiles[t].tile);
  return ordered;
}

/// Links of a cluster's devices.
Link link_of(const Cluster& cluster, int a, int b) {
  return a / cluster.devices_per_host == b / cluster.devices_per_host ? cluster.within_host
                                                                      : cluster.between_hosts;
}

/// When devices have sent and received what they were given so far.
class Clock {
 public:
  explicit Clock(const Cluster& cluster) : cluster_(cluster) {}

  void move(const TransferTile& tile, double bytes) {
    const Link link = link_of(cluster_, tile.from, tile.to);
    double& sent = sent_[tile.from];
    double& received = received_[tile.to];
    double begin = std::max(sent, received);
    if (tile.passed_on) begin = std::max(begin, arrived_.at({tile.from, tile.begin}));
    sent = received = begin + link.alpha_seconds + bytes * link.beta_seconds_per_byte;
    arrived_[{tile.to, tile.begin}] = received;
    end_ = std::max(end_, received);
  }

  double end() const { return end_; }

 private:
  const Cluster& cluster_;
  std::map<int, double> sent_, received_;            ///< by device
  std::map<std::pair<int, Shape>, double> arrived_;  ///< by device and begin of the box
  double end_ = 0;
};

TransferCost cost_of(const TensorType& type, const std::vector<TransferTile>& tiles,
                     const Cluster& cluster) {
  TransferCost cost;
  Clock clock(cluster);
  for (const TransferTile& tile : tiles) {
    const auto bytes = static_cast<double>(TensorType{type.dtype, tile.extent}.bytes());
    if (!tile.passed_on) cost.bytes += bytes;
    clock.move(tile, bytes);
  }
  cost.seconds = clock.end();
  return cost;
}

/// The tiles take no less in any order: each device sends, or receives, its own one by one.
double busiest_seconds(const TensorType& type, const OrderedTiles& tiles, const Cluster& cluster) {
  constexpr double kRounding = 1 - 1e-9;  // the clock adds in another order
  std::unordered_map<int, std::array<double, 2>> busy;
  double most = 0;
  for (const auto& [tile, behind] : tiles) {
    const auto bytes = static_cast<double>(TensorType{type.dtype, tile.extent}.bytes());
    const Link link = link_of(cluster, tile.from, tile.to);
    const double seconds = link.alpha_seconds + bytes * link.beta_seconds_per_byte;
    most = std::max({most, busy[tile.from][0] += seconds, busy[tile.to][1] += seconds});
  }
  return most * kRounding;
}

/// Chunks for which a chain of devices is done first: n hops take
/// (chunks + n - 1) · (α + βb/chunks) seconds. 0: no device has more than its own copy to pass on.
int best_chunks(const TensorType& type, const MeshLayout& from, const MeshLayout& to,
                const Cluster& cluster) {
  constexpr int kMostChunks = 64;
  const Owners targets = owners_of(type.shape, to);
  std::size_t hops = 0;
  for (const auto& [shard, receivers] : targets) hops = std::max(hops, receivers.size());
  if (hops < 2) return 0;
  const Link link = link_between(cluster, from.mesh, to.mesh);
  const double bytes =
      static_cast<double>(type.bytes()) /
      static_cast<double>(std::max(targets.size(), owners_of(type.shape, from).size()));
  if (link.alpha_seconds <= 0) return kMostChunks;
  const double best = std::sqrt(static_cast<double>(hops - 1) * bytes * link.beta_seconds_per_byte /
                                link.alpha_seconds);
  return static_cast<int>(std::clamp<double>(std::round(best), 1, kMostChunks));
}

/// No way to send the tensor takes less: over the faster link, a device has to receive its shard,
/// and the smaller mesh to pass everything.
double least_seconds(const TensorType& type, const MeshLayout& from, const MeshLayout& to,
                     const Cluster& cluster) {
  const Link &a = cluster.within_host, &b = cluster.between_hosts;
  const Link link{std::min(a.alpha_seconds, b.alpha_seconds),
                  std::min(a.beta_seconds_per_byte, b.beta_seconds_per_byte)};
  const Shape shard = local_shape(type.shape, to.spec, to.mesh, to.mesh.coordinates(0));
  const auto own = static_cast<double>(TensorType{type.dtype, shard}.bytes());
  return std::max(own > 0 ? link.alpha_seconds + own * link.beta_seconds_per_byte : 0,
                  least_transfer_seconds(static_cast<double>(type.bytes()), from.mesh.num_devices(),
                                         to.mesh.num_devices(), link));
}

bool only_gathers(const ReshardPath& path) {
  return std::ranges::all_of(path.steps, gathers, &ReshardStep::kind);
}

}  // namespace

std::string_view name_of(TransferStrategy strategy) {
  constexpr std::string_view kNames[] = {"send_receive", "local_all_gather", "local_reshard",
                                         "broadcast"};
  return kNames[static_cast<int>(strategy)];
}

namespace {

OrderedTiles unordered_tiles(const TensorType& type, const MeshLayout& from, const MeshLayout& to,
                             const TransferRoute& route) {
  invariant(!from.spec.is_partial() && !to.spec.is_partial(), "transfer of {} from {} to {}",
            to_string(type), to_string(from.spec), to_string(to.spec));
  const Owners sources = owners_of(type.shape, from), targets = owners_of(type.shape, to);
  return route.chunks > 0 ? chained_tiles(sources, targets, route)
                          : direct_tiles(sources, targets, route);
}

}  // namespace

std::vector<TransferTile> transfer_tiles(const TensorType& type, const MeshLayout& from,
                                         const MeshLayout& to, const TransferRoute& route) {
  return in_rounds(unordered_tiles(type, from, to, route), route);
}

TransferCost transfer_cost(const TensorType& type, const MeshLayout& from, const MeshLayout& to,
                           const Cluster& cluster, const TransferRoute& route) {
  return cost_of(type, transfer_tiles(type, from, to, route), cluster);
}

PlannedTransfer plan_transfer(const TensorType& type, const MeshLayout& from, const MeshLayout& to,
                              const Cluster& cluster) {
  std::optional<PlannedTransfer> best;
  ReshardPrices prices(to.mesh, CostModel::of(cluster).reshard);
  const auto consider = [&](const ShardingSpec& spec, double gather_seconds, bool chained) {
    const MeshLayout arrives{to.mesh, spec};
    if (best && gather_seconds + least_seconds(type, from, arrives, cluster) >= best->cost.seconds)
      return;
    TransferRoute route{.devices_per_host = cluster.num_hosts > 1 ? cluster.devices_per_host : 0};
    if (chained) route.chunks = best_chunks(type, from, arrives, cluster);
    if (chained && route.chunks == 0) return;
    const OrderedTiles tiles = unordered_tiles(type, from, arrives, route);
    if (best && gather_seconds + busiest_seconds(type, tiles, cluster) >= best->cost.seconds)
      return;  // to find rounds takes longest
    TransferCost cost = cost_of(type, in_rounds(tiles, route), cluster);
    cost.seconds += gather_seconds;
    if (best && cost.seconds >= best->cost.seconds) return;
    best = {chained ? TransferStrategy::broadcast : TransferStrategy::send_receive,
            route,
            spec,
            {},
            cost};
  };
  consider(to.spec, 0, false);
  consider(to.spec, 0, true);
  const std::vector<ShardingSpec> specs = all_specs(type, to.mesh, kNoPartials);
  const std::vector<double> gathers = prices.seconds(type, specs, {to.spec});
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (specs[i] != to.spec) consider(specs[i], gathers[i], false);
  if (best->arrives == to.spec) return *best;
  best->gather = *prices.path(type, best->arrives, to.spec);
  best->strategy = only_gathers(best->gather) ? TransferStrategy::local_all_gather
                                              : TransferStrategy::local_reshard;
  return *best;
}

double least_transfer_seconds(double bytes, int senders, int receivers, const Link& link) {
  return link.alpha_seconds + bytes / std::min(senders, receivers) * link.beta_seconds_per_byte;
}

Link link_between(const Cluster& cluster, const DeviceMesh& a, const DeviceMesh& b) {
  return link_between(cluster, on_one_host(cluster, a, b));
}

Link link_between(const Cluster& cluster, bool on_one_host) {
  if (on_one_host) return cluster.within_host;
  return {std::max(cluster.within_host.alpha_seconds, cluster.between_hosts.alpha_seconds),
          std::max(cluster.within_host.beta_seconds_per_byte,
                   cluster.between_hosts.beta_seconds_per_byte)};
}

}  // namespace alpa::cost
