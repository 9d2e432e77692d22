#pragma once
/// The costs of a stage problem as the stage search reads them.
#include <cstddef>
#include <vector>

#include "src/inter_op/best_partition.h"

namespace alpa::inter_op {

/// A configuration of a range of layers on a submesh.
struct PartitionOption {
  double seconds = 0;
  int most_after = 0;  ///< stages after it for which memory suffices, at most
  int configuration = 0;
};

/// What stages wait is found up to this part of it.
inline constexpr double kBoundStep = 1e-3;

struct PartitionTables {
  int layers = 0, submeshes = 0;
  /// Memory does not distinguish this number of stages after a stage from more.
  int most_counted = 0;
  std::vector<std::size_t> begin = {};  ///< per (first, last, submesh) its options, and an end
  std::vector<PartitionOption> options =
      {};                             ///< of a range by ascending seconds and stages after it
  bool transfers = false;             ///< whether any transfer takes time
  std::vector<double> transfer = {};  ///< per (layer, submesh before, submesh after)
  /// Per number of stages after a stage, up to most_counted, the micro-batches in flight at it;
  /// empty: nothing waits for them.
  std::vector<int> in_flight = {};
  /// Seconds of options and transfers, ascending, distinct; where stages wait, others between them,
  /// too, each at most kBoundStep larger than the one before.
  std::vector<double> bounds = {};

  /// The cheapest option of layers `first` to `last` on submesh m with `after` stages after it;
  /// nullptr: none fits.
  const PartitionOption* option(int first, int last, int m, int after) const {
    const std::size_t at = range(first, last, m);
    for (std::size_t o = begin[at]; o < begin[at + 1]; ++o)
      if (options[o].most_after >= after) return &options[o];
    return nullptr;
  }
  /// Seconds from the stage before `layer` to the one after it; 0 before the first layer.
  double transfer_seconds(int layer, int before, int after) const {
    return !transfers || layer == 0
               ? 0
               : transfer[(static_cast<std::size_t>(layer) * submeshes + before) * submeshes +
                          after];
  }
  std::size_t range(int first, int last, int m) const {
    return (static_cast<std::size_t>(first) * layers + last) * submeshes + m;
  }
};

/// Throws Bug unless tables and submeshes fit together, and in_flight does not decrease.
PartitionTables partition_tables(const PartitionProblem& problem);

}  // namespace alpa::inter_op
