// kernels/cuda/reduce_plan.cc — plans reductions: merged dimensions, one or two passes, workspace
#include <algorithm>

#include "kernels/cuda/reduce.h"

namespace alpa::cuda {
namespace {

constexpr std::int64_t kPieceElements = 16 * 1024;  ///< worth a block
constexpr std::int64_t kBlockColumns = 256;         ///< that a block takes side by side
constexpr std::int64_t kTargetPieces = 1024;        ///< blocks that fill a card

struct Dim {
  std::int64_t extent, stride;
  bool reduced;
};

/// Neighbours that are reduced, or kept, together become one. Returns their number,
/// -1 if there are too many.
int merge(Dim* dims, int capacity, int rank, const std::int64_t* extent, const bool* reduce) {
  int count = 0;
  std::int64_t stride = 1;
  for (int d = rank - 1; d >= 0; stride *= extent[d--]) {  // innermost first
    if (extent[d] == 1) continue;
    if (count > 0 && dims[count - 1].reduced == reduce[d]) {
      dims[count - 1].extent *= extent[d];
      continue;
    }
    if (count == capacity) return -1;
    dims[count++] = {extent[d], stride, reduce[d]};
  }
  return count;
}

void add(Walk& walk, std::int64_t& count, const Dim& dim) {
  walk.extent[walk.dims] = dim.extent;
  walk.stride[walk.dims++] = dim.stride;
  count *= dim.extent;
}

void cut(ReduceLaunch& r) {
  const std::int64_t length = r.inner_reduced ? r.reduced_count * r.inner : r.reduced_count;
  const std::int64_t across = r.inner_reduced ? 1 : std::min(r.inner, kBlockColumns);
  const std::int64_t elements = length * across;  // for one block, were there one piece
  const std::int64_t blocks =
      r.kept_count * (r.inner_reduced ? 1 : (r.inner + across - 1) / across);
  const std::int64_t wanted =
      std::min(elements / kPieceElements, kTargetPieces / std::max<std::int64_t>(1, blocks));
  r.per_piece =
      (length + std::max<std::int64_t>(1, wanted) - 1) / std::max<std::int64_t>(1, wanted);
  // pieces begin at multiples of any pack
  if (r.inner_reduced) r.per_piece = (r.per_piece + 63) / 64 * 64;
  r.pieces = (length + r.per_piece - 1) / r.per_piece;
}

}  // namespace

bool plan_reduce(ReduceLaunch& launch, ReduceOp op, DType from, DType to, int rank,
                 const std::int64_t* extent, const bool* reduce) {
  ReduceLaunch r;
  r.op = op, r.from = from, r.to = to;
  std::int64_t elements = 1;
  r.results = 1;
  for (int d = 0; d < rank; ++d) {
    elements *= extent[d];
    if (!reduce[d]) r.results *= extent[d];
  }
  r.empty = elements == 0;
  launch = r;
  if (r.empty) return true;
  Dim dims[kMaxDims + 1];
  const int count = merge(dims, kMaxDims + 1, rank, extent, reduce);
  if (count < 0) return false;
  if (count > 0) r.inner = dims[0].extent, r.inner_reduced = dims[0].reduced;
  for (int d = count - 1; d > 0; --d)
    dims[d].reduced ? add(r.reduced, r.reduced_count, dims[d]) : add(r.kept, r.kept_count, dims[d]);
  cut(r);
  launch = r;
  return true;
}

std::int64_t reduce_workspace_bytes(const ReduceLaunch& launch) {
  return launch.pieces > 1
             ? launch.pieces * launch.results * static_cast<std::int64_t>(sizeof(double))
             : 0;
}

}  // namespace alpa::cuda
