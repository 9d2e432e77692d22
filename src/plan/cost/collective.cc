// src/plan/cost/collective.cc — seconds and bytes of collectives by ring formulas
#include "src/plan/cost/collective.h"
#include "src/base/infinity.h"
#include "src/plan/cost/log_position.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace alpa::cost {
namespace {

/// Seconds of an all_reduce inside a host.
double measured_all_reduce(double bytes, int n, const HostLinks& links) {
  const MeasuredCollectives& known = links.measured;
  const auto first = static_cast<double>(known.bytes.front()),
             last = static_cast<double>(known.bytes.back());
  const LogPosition b = log_position(known.bytes, bytes), m = log_position(known.members, n);
  const auto log_at = [&](std::size_t member) {
    const auto at = [&](std::size_t size) {
      return std::log2(known.seconds[member * known.bytes.size() + size]);
    };
    return at(b.below) + b.share * (at(b.above) - at(b.below));
  };
  const double seconds = std::exp2(log_at(m.below) + m.share * (log_at(m.above) - log_at(m.below)));
  if (bytes > last) return seconds * bytes / last;
  if (bytes >= first) return seconds;
  const double alpha = std::min(links.within.alpha_seconds, seconds);
  return alpha + (seconds - alpha) * bytes / first;
}

double within_host_seconds(CollectiveKind kind, double bytes, int n, const HostLinks& links) {
  if (n == 1) return 0;
  const double sent = collective_sent_bytes(kind, bytes, n);
  if (links.measured.bytes.empty())
    return links.within.alpha_seconds + links.within.beta_seconds_per_byte * sent;
  const double all = collective_sent_bytes(CollectiveKind::all_reduce, bytes, n);
  return measured_all_reduce(bytes, n, links) * sent / all;
}

/// How the groups of a collective lie on the hosts.
struct Spread {
  int hosts = 1;     ///< of a group
  int per_host = 1;  ///< devices of a group on a host
  int groups = 1;    ///< with devices on the same host
};
Spread spread_of(const DeviceMesh& mesh, std::span<const int> axes, int devices_per_host) {
  const std::vector<int> group = mesh.group(0, {axes.begin(), axes.end()});
  std::set<int> hosts;
  for (int rank : group) hosts.insert(mesh.devices()[rank] / devices_per_host);
  const int own = mesh.devices().front() / devices_per_host;
  const auto on_host =
      static_cast<int>(std::count_if(mesh.devices().begin(), mesh.devices().end(),
                                     [&](int device) { return device / devices_per_host == own; }));
  const int per_host = std::max(1, static_cast<int>(group.size() / hosts.size()));
  return {static_cast<int>(hosts.size()), per_host, std::max(1, on_host / per_host)};
}

/// Seconds to send `bytes` from each host to others, for every group at once.
double adapter_seconds(double bytes, const Spread& spread, const HostLinks& links) {
  const double own = links.adapters.bytes_per_second *
                     std::min(spread.per_host, links.adapters.count) / links.adapters.count,
               shared = links.adapters.bytes_per_second / spread.groups;
  return links.between.alpha_seconds + bytes / std::min(own, shared);
}

double between_hosts_seconds(CollectiveKind kind, double bytes, const Spread& spread,
                             const HostLinks& links) {
  if (pairwise(kind)) {
    const int n = spread.hosts * spread.per_host;
    const double others = bytes * spread.per_host * (n - spread.per_host) / n,
                 inside = bytes * spread.per_host / n;
    return std::max(adapter_seconds(others, spread, links),
                    within_host_seconds(kind, inside, spread.per_host, links));
  }
  const double across =
      adapter_seconds(collective_sent_bytes(kind, bytes, spread.hosts), spread, links);
  return across + within_host_seconds(kind, bytes, spread.per_host, links);
}

}  // namespace

HostLinks HostLinks::of(const Cluster& cluster) {
  if (cluster.measured_within_host == MeasuredCollectives{} && cluster.adapters == HostAdapters{})
    return {};
  return {cluster.devices_per_host, cluster.within_host, cluster.between_hosts,
          cluster.measured_within_host, cluster.adapters};
}

double collective_seconds(CollectiveKind kind, double bytes, const DeviceMesh& mesh,
                          std::span<const int> axes, const CollectiveOptions& options) {
  int n = 1;
  double alpha = 0, beta = 0;
  for (int axis : axes) {
    const MeshAxis& link = mesh.axes()[axis];
    n *= link.size;
    if (link.size == 1) continue;
    alpha = std::max(alpha, link.alpha_seconds);
    beta = std::max(beta, link.beta_seconds_per_byte);
  }
  if (n == 1) return 0;
  if ((gathers(kind) && !options.allow_all_gather) || (pairwise(kind) && !options.allow_all_to_all))
    return kInfinity;
  const double tail = tie_break_seconds(kind, options);
  if (const HostLinks& links = options.links; links.devices_per_host > 0) {
    const Spread spread = spread_of(mesh, axes, links.devices_per_host);
    if (spread.hosts == 1 && !links.measured.bytes.empty())
      return within_host_seconds(kind, bytes, n, links) + tail;
    if (spread.hosts > 1 && links.adapters.bytes_per_second > 0)
      return between_hosts_seconds(kind, bytes, spread, links) + tail;
  }
  return alpha + beta * collective_sent_bytes(kind, bytes, n) + tail;
}

double collective_sent_bytes(CollectiveKind kind, double bytes, int n) {
  const double others = static_cast<double>(n - 1) / n;
  return def_of(kind).passes * others * bytes;
}

double tie_break_seconds(CollectiveKind kind, const CollectiveOptions& options) {
  return options.tie_break_tails ? def_of(kind).tie_break_seconds : 0;
}

}  // namespace alpa::cost
