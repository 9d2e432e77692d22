// src/search/bound/tiling.cc — automata of the lists of submeshes that tile a cluster
#include "src/search/bound/tiling.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "src/search/tuning.h"

namespace alpa::inter_op {
namespace {

bool is_part(const Submesh& cluster, const Submesh& submesh) {
  return submesh.num_devices() < cluster.devices;
}

/// Sizes of parts, ascending.
std::set<int> part_sizes(const Submesh& cluster, const std::vector<Submesh>& submeshes) {
  std::set<int> sizes;
  for (const Submesh& submesh : submeshes)
    if (is_part(cluster, submesh)) sizes.insert(submesh.devices);
  return sizes;
}

/// Appends a step, joined to the last one where it continues it.
void append(std::vector<TilingStep>& steps, int from, int to) {
  if (!steps.empty() && steps.back().from + steps.back().count == from &&
      steps.back().to + steps.back().count == to)
    ++steps.back().count;
  else
    steps.push_back({from, to, 1});
}

/// The state is the number of devices used, in units that divide all parts.
/// `allowed(submesh, used)` says whether a submesh may come next.
template <class Allowed>
Tiling counting(const Submesh& cluster, const std::vector<Submesh>& submeshes,
                const Allowed& allowed) {
  int unit = cluster.num_devices();
  for (const Submesh& submesh : submeshes) unit = std::gcd(unit, submesh.num_devices());
  const int units = cluster.num_devices() / unit;
  Tiling tiling{.states = units + 1, .full = units, .steps = {}, .devices = {}};
  for (int used = 0; used <= units; ++used) tiling.devices.push_back(used * unit);
  for (const Submesh& submesh : submeshes) {
    std::vector<TilingStep>& steps = tiling.steps.emplace_back();
    const int size = submesh.num_devices() / unit;
    for (int used = 0; used + size <= units; ++used)
      if (allowed(submesh, used * unit)) append(steps, used, used + size);
  }
  return tiling;
}

/// Lists of whole hosts and of parts with these sizes, which divide each other: those with the
/// right number of devices tile the cluster.
Tiling of_sizes(const Submesh& cluster, const std::vector<Submesh>& submeshes,
                const std::set<int>& sizes) {
  return counting(cluster, submeshes, [&](const Submesh& submesh, int) {
    return !is_part(cluster, submesh) || sizes.contains(submesh.devices);
  });
}

/// Parts of one host follow each other. Whole hosts do not change the devices used of the host that
/// is being filled, which is the number of devices used modulo those of a host.
Tiling host_by_host(const Submesh& cluster, const std::vector<Submesh>& submeshes) {
  return counting(cluster, submeshes, [&](const Submesh& submesh, int used) {
    return !is_part(cluster, submesh) ||
           used % cluster.devices + submesh.devices <= cluster.devices;
  });
}

/// Maximal sets of sizes in which each divides the next larger one, and all divide a host.
void collect_chains(const std::set<int>& sizes, int host, std::set<int>& chain,
                    std::vector<std::set<int>>& chains) {
  const int last = chain.empty() ? 1 : *chain.rbegin();
  bool maximal = true;
  for (int size : sizes) {
    if (size % last != 0 || host % size != 0 || chain.contains(size)) continue;
    const bool between = std::any_of(sizes.begin(), sizes.end(), [&](int other) {
      return other != size && !chain.contains(other) && other % last == 0 && size % other == 0;
    });
    maximal = false;
    if (between) continue;
    chain.insert(size);
    collect_chains(sizes, host, chain, chains);
    chain.erase(size);
  }
  if (maximal) chains.push_back(chain);
}

using Filling = std::vector<int>;  // devices used per host, descending

Filling with_submesh(const Submesh& cluster, Filling filling, const Submesh& submesh,
                     std::size_t host) {
  for (int h = 0; h < submesh.hosts; ++h) filling[host - h] += submesh.devices;
  if (filling[host] > cluster.devices) return {};
  std::sort(filling.rbegin(), filling.rend());
  return filling;
}

/// The fillings after `submesh`: a part on any host that has room, whole hosts on empty ones.
std::set<Filling> next_fillings(const Submesh& cluster, const Filling& filling,
                                const Submesh& submesh) {
  std::set<Filling> next;
  const std::size_t first = static_cast<std::size_t>(submesh.hosts) - 1;
  for (std::size_t host = first; host < filling.size(); ++host) {
    const bool free = submesh.hosts == 1 || filling[host - first] == 0;
    const Filling after = free ? with_submesh(cluster, filling, submesh, host) : Filling{};
    if (!after.empty()) next.insert(after);
  }
  return next;
}

int devices_of(const Filling& filling) {
  return std::accumulate(filling.begin(), filling.end(), 0);
}

struct ByDevices {
  bool operator()(const Filling& a, const Filling& b) const {
    const int in_a = devices_of(a), in_b = devices_of(b);
    return in_a != in_b ? in_a < in_b : a < b;
  }
};

/// The state is the filling of hosts. Without states if there are too many.
Tiling of_fillings(const Submesh& cluster, const std::vector<Submesh>& submeshes) {
  std::map<Filling, int, ByDevices> number = {{Filling(cluster.hosts, 0), 0}};
  for (auto at = number.begin(); at != number.end(); ++at)  // what follows has more devices
    for (const Submesh& submesh : submeshes) {
      for (const Filling& next : next_fillings(cluster, at->first, submesh)) number[next] = 0;
      if (number.size() > search::kTuning.tiling.most_fillings) return {};
    }
  int next_number = 0;
  for (auto& [filling, n] : number) n = next_number++;
  const auto full = number.find(Filling(cluster.hosts, cluster.devices));
  Tiling tiling{.states = next_number,
                .full = full == number.end() ? -1 : full->second,
                .steps = {},
                .devices = {}};
  for (const auto& [filling, n] : number) tiling.devices.push_back(devices_of(filling));
  for (const Submesh& submesh : submeshes) {
    std::vector<TilingStep>& steps = tiling.steps.emplace_back();
    for (const auto& [filling, n] : number)
      for (const Filling& next : next_fillings(cluster, filling, submesh))
        append(steps, n, number.at(next));
  }
  return tiling;
}

}  // namespace

std::vector<Tiling> tilings(const Submesh& cluster, const std::vector<Submesh>& submeshes) {
  const std::set<int> sizes = part_sizes(cluster, submeshes);
  if (cluster.hosts == 1) return {of_sizes(cluster, submeshes, sizes)};
  std::vector<std::set<int>> chains;
  std::set<int> chain;
  collect_chains(sizes, cluster.devices, chain, chains);
  if (chains.size() == 1 && chains[0] == sizes) return {of_sizes(cluster, submeshes, sizes)};
  const Tiling exact = of_fillings(cluster, submeshes);
  if (!exact.steps.empty()) return {exact};
  std::vector<Tiling> result;
  for (const std::set<int>& of_chain : chains)
    result.push_back(of_sizes(cluster, submeshes, of_chain));
  result.push_back(host_by_host(cluster, submeshes));
  return result;
}

}  // namespace alpa::inter_op
