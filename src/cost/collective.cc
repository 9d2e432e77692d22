// src/cost/collective.cc — seconds and bytes of collectives by ring formulas
#include "src/cost/collective.h"
#include "src/base/infinity.h"

#include <algorithm>

namespace alpa::cost {
namespace {

/// Small terms by which Alpa's formulas order equal costs: all_gather last, then all_reduce.
double tie_break_tail(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return 0.01;
    case CollectiveKind::all_gather: return 0.1;
    default: return 0.001;
  }
}

bool allowed(CollectiveKind kind, const CollectiveOptions& options) {
  if (kind == CollectiveKind::all_gather) return options.allow_all_gather;
  if (kind == CollectiveKind::all_to_all) return options.allow_all_to_all;
  return true;
}

}  // namespace

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
  if (!allowed(kind, options)) return kInfinity;
  return alpha + beta * collective_sent_bytes(kind, bytes, n) +
         (options.tie_break_tails ? tie_break_tail(kind) : 0);
}

double collective_sent_bytes(CollectiveKind kind, double bytes, int n) {
  const double others = static_cast<double>(n - 1) / n;
  return (kind == CollectiveKind::all_reduce ? 2 : 1) * others * bytes;
}

double to_partial_tail(const CollectiveOptions& options) {
  return options.tie_break_tails ? 0.001 : 0;
}

}  // namespace alpa::cost
