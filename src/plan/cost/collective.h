#pragma once
/// Seconds of collectives over one or more mesh axes, by Alpa's formulas (auto_sharding.py), but
/// with actual all-to-all bytes.
#include <span>

#include "alpa/mesh/cluster.h"
#include "alpa/mesh/collective.h"
#include "alpa/mesh/device_mesh.h"

namespace alpa::cost {

/// The links of a cluster, where more is known of them than the latency and the rate of an axis.
struct HostLinks {
  /// Hosts have consecutive devices; 0: nothing more is known.
  int devices_per_host = 0;
  Link within, between;
  MeasuredCollectives measured = {};  ///< inside a host; empty: `within`
  HostAdapters adapters = {};         ///< rate 0: each device has `between`

  bool operator==(const HostLinks&) const = default;
  static HostLinks of(const Cluster& cluster);
};

/// Options of the formulas; some serve comparison with published objectives of other systems.
struct CollectiveOptions {
  /// adds Alpa's 0.01/0.1/0.001/0.001 seconds (AR/AG/RS/A2A), and 0.001 to to_partial, for its test
  /// cases
  bool tie_break_tails = false;
  bool allow_all_gather = true;  ///< false: infinite
  bool allow_all_to_all = true;
  HostLinks links = {};  ///< of the cluster

  bool operator==(const CollectiveOptions&) const = default;
};

/// Seconds over `axes` (α = max, β = max, n = product for several). `bytes` per device: all_reduce,
/// reduce_scatter and all_to_all: of the local operand; all_gather: of the gathered result (for
/// uneven parts n times the largest one). AR α+2β(n-1)/n·b, AG and RS α+β(n-1)/n·b, A2A
/// α+β(n-1)/n·b. 0 if n = 1; infinity if the options forbid the kind.
/// With `options.links`: inside a host by measured all_reduces, others as the same share of them as
/// of the bytes sent. Between hosts hierarchically (docs/cost-model.md), at the rate of the
/// adapters, which all groups of the axes share that have devices on the host.
double collective_seconds(CollectiveKind kind, double bytes, const DeviceMesh& mesh,
                          std::span<const int> axes, const CollectiveOptions& options = {});

/// Bytes one device sends in the ring algorithm: AR 2(n-1)/n·b, AG and RS (n-1)/n·b, A2A
/// (n-1)/n·b, with `bytes` as above.
double collective_sent_bytes(CollectiveKind kind, double bytes, int n);

/// Seconds that `options.tie_break_tails` adds. A to_partial has some, too: a sum that becomes
/// partial again is reduced twice, the worse of two plans that are otherwise equal.
double tie_break_seconds(CollectiveKind kind, const CollectiveOptions& options);

}  // namespace alpa::cost
