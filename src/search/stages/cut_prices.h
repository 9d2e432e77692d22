#pragma once
/// Prices of what stages pass to each other, before they are planned.
#include <vector>

#include "alpa/ir/graph.h"
#include "alpa/mesh/cluster.h"
#include "src/search/bound/submesh.h"

namespace alpa {

/// Seconds to pass what crosses a cut between stages, forward and backward.
struct CutSeconds {
  double per_micro_batch = 0;
  double per_step = 0;  ///< what lasts for the step, such as tied weights and their gradients
};

/// Prices of cuts of a graph into stages on these submeshes, which are named by index. No way to
/// send the tensors takes less (cost::least_transfer_seconds).
class CutPrices {
 public:
  /// `staged` is `graph` with a stage per layer (`with_stages`).
  CutPrices(const Graph& graph, const Graph& staged, const Cluster& cluster,
            std::vector<inter_op::Submesh> submeshes);

  /// Between the stage on submesh `before`, which ends before layer `layer`, and the one on
  /// `after`, which begins there: on one host if they fit.
  CutSeconds least(int layer, int before, int after) const;
  CutSeconds least(int layer, int before, int after, bool on_one_host) const;

 private:
  struct Bytes {
    double per_micro_batch = 0, per_step = 0;
  };
  static std::vector<Bytes> bytes_of(const Graph& graph, const Graph& staged);

  const std::vector<inter_op::Submesh> submeshes_;
  const std::vector<Bytes> bytes_;  ///< per layer, of the cut before it, there and back
  const int devices_per_host_;
  const Link within_host_, between_hosts_;
};

}  // namespace alpa
