// src/search/bound/submesh.cc — shapes of parts of a cluster, and where they are
#include "src/search/bound/submesh.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "alpa/base/error.h"
#include "src/search/tuning.h"

namespace alpa::inter_op {

std::string to_string(const Submesh& submesh) {
  return fmt::format("{}x{}", submesh.hosts, submesh.devices);
}

namespace {

/// The next number if `size` is below `every`, else the next one of so many significant binary
/// digits.
int next_size(int size, int every, int digits) {
  int step = 1;
  if (size >= every)
    while ((step << digits) <= size) step *= 2;
  return (size / step + 1) * step;
}

}  // namespace

std::vector<Submesh> submesh_choices(const Submesh& cluster, SubmeshSpace space) {
  const bool any_size = space == SubmeshSpace::any_size;
  require(any_size || std::has_single_bit(static_cast<unsigned>(cluster.devices)),
          "submeshes: parts of 1, 2, 4, … devices do not tile hosts of {} devices; use parts of "
          "any size",
          cluster.devices);
  const bool doubling = space == SubmeshSpace::power_of_two;
  std::vector<Submesh> choices;
  for (int devices = 1; devices <= cluster.devices;
       devices = any_size ? next_size(devices, search::kTuning.submesh.every_size, 4) : 2 * devices)
    choices.push_back({1, devices});
  for (int hosts = 2; hosts <= cluster.hosts;
       hosts = doubling   ? 2 * hosts
               : any_size ? next_size(hosts, search::kTuning.submesh.every_hosts, 2)
                          : hosts + 1)
    choices.push_back({hosts, cluster.devices});
  if (any_size)
    std::erase_if(choices, [&](const Submesh& part) {
      return part.num_devices() * search::kTuning.submesh.most_parts < cluster.num_devices();
    });
  return choices;
}

namespace {

/// Fills hosts with parts, one host after the other.
class HostFilling {
 public:
  HostFilling(const Submesh& cluster, const std::vector<Submesh>& submeshes, std::vector<int> order,
              int first_host)
      : cluster_(cluster),
        submeshes_(submeshes),
        order_(std::move(order)),
        device_(submeshes.size(), -1),
        next_(first_host * cluster.devices) {}

  /// Whether all parts found a place.
  bool fill() {
    const int free_here = cluster_.devices - next_ % cluster_.devices;
    if (free_here == cluster_.devices) {
      if (next_ == cluster_.num_devices()) return true;
      if (!seen_.insert(remaining()).second) return false;
    }
    int tried = 0;  // devices of the part tried last: equal ones would fail, too
    for (int part : order_) {
      const int devices = submeshes_[part].devices;
      if (device_[part] >= 0 || devices > free_here || devices == tried) continue;
      tried = devices;
      device_[part] = next_;
      next_ += devices;
      if (fill()) return true;
      next_ -= devices;
      device_[part] = -1;
    }
    return false;
  }

  int first_device(int part) const { return device_[part]; }

 private:
  std::vector<int> remaining() const {
    std::vector<int> devices;
    for (int part : order_)
      if (device_[part] < 0) devices.push_back(submeshes_[part].devices);
    return devices;
  }

  const Submesh& cluster_;
  const std::vector<Submesh>& submeshes_;
  std::vector<int> order_;
  std::vector<int> device_;          ///< per submesh its first device, or -1
  int next_ = 0;                     ///< device
  std::set<std::vector<int>> seen_;  ///< parts that were left when a host was begun
};

void check(const Submesh& cluster, const std::vector<Submesh>& submeshes) {
  int devices = 0;
  for (const Submesh& submesh : submeshes) {
    require(submesh.hosts >= 1 && submesh.devices >= 1 && submesh.devices <= cluster.devices &&
                (submesh.hosts == 1 || submesh.devices == cluster.devices),
            "submesh {}: a stage has part of one host or all {} devices of several; the cluster is "
            "{}",
            submesh, cluster.devices, cluster);
    devices += submesh.num_devices();
  }
  require(devices == cluster.num_devices(),
          "submeshes {} have {} devices, the cluster {} has {}; stages must use each device once",
          fmt::join(submeshes, ", "), devices, cluster, cluster.num_devices());
}

std::vector<int> consecutive(int first, int count) {
  std::vector<int> devices(count);
  std::iota(devices.begin(), devices.end(), first);
  return devices;
}

}  // namespace

std::vector<std::vector<int>> place(const Submesh& cluster, const std::vector<Submesh>& submeshes) {
  check(cluster, submeshes);
  std::vector<int> order(submeshes.size());
  std::iota(order.rbegin(), order.rend(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return submeshes[a].num_devices() > submeshes[b].num_devices();
  });
  const auto parts = std::find_if(order.begin(), order.end(), [&](int s) {
    return submeshes[s].num_devices() < cluster.devices;
  });
  std::vector<std::vector<int>> devices(submeshes.size());
  int host = 0;
  for (auto at = order.begin(); at != parts; ++at) {
    devices[*at] = consecutive(host * cluster.devices, submeshes[*at].num_devices());
    host += submeshes[*at].hosts;
  }
  HostFilling filling(cluster, submeshes, {parts, order.end()}, host);
  require(filling.fill(), "submeshes {} do not tile {} hosts of {} devices; change their sizes",
          fmt::join(submeshes, ", "), cluster.hosts, cluster.devices);
  for (auto at = parts; at != order.end(); ++at)
    devices[*at] = consecutive(filling.first_device(*at), submeshes[*at].devices);
  return devices;
}

std::vector<std::vector<int>> place_in_order(const Submesh& cluster,
                                             const std::vector<Submesh>& submeshes) {
  std::vector<std::vector<int>> devices;
  int first = 0;
  for (const Submesh& submesh : submeshes) {
    const int offset = first % cluster.devices;
    if (submesh.hosts > 1 ? offset != 0 : offset + submesh.devices > cluster.devices)
      return place(cluster, submeshes);
    devices.emplace_back(submesh.num_devices());
    std::iota(devices.back().begin(), devices.back().end(), first);
    first += submesh.num_devices();
  }
  return devices;
}

}  // namespace alpa::inter_op
