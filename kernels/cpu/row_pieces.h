#pragma once
/// Two sums of every column over the rows of a tensor, such as the gradients of a scale and a bias.
/// Rows are summed in pieces that depend only on the shape, in double, then the pieces in order. So
/// the sums do not depend on the number of threads.
#include <algorithm>
#include <cstdint>

#include "kernels/cpu/kernels.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {

inline constexpr std::int64_t kRowPiece = 32 * 1024;  ///< elements that one piece aims at

struct RowPieces {
  std::int64_t rows = 0, width = 0, count = 0, per_piece = 0;

  std::int64_t workspace_bytes() const {
    return count * 2 * width * static_cast<std::int64_t>(sizeof(double));
  }
};

/// With `fixed`, pieces do not depend on the width.
RowPieces row_pieces(std::int64_t rows, std::int64_t width, bool fixed);

/// Calls add(first row, end of the rows, sums, other sums) for every piece, on the call's threads.
/// The sums, `width` each, begin at 0 in the call's workspace.
template <class Add>
void sum_pieces(const KernelCall& call, const RowPieces& pieces, const Add& add) {
  auto* const workspace = reinterpret_cast<double*>(call.workspace);
  call.team->parallel_for(pieces.count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      double* const sums = workspace + p * 2 * pieces.width;
      std::fill(sums, sums + 2 * pieces.width, 0.0);
      add(p * pieces.per_piece, std::min((p + 1) * pieces.per_piece, pieces.rows), sums,
          sums + pieces.width);
    }
  });
}

/// The sums of all pieces become output `first`, the other ones the output behind it, if there is
/// one.
void add_pieces(const KernelCall& call, const RowPieces& pieces, std::size_t first);

}  // namespace alpa::cpu
