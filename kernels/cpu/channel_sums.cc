// kernels/cpu/channel_sums.cc — channel_sums and channel_products: Σ x and Σ x·y of every channel.
// Rows are summed in pieces that depend only on the shape, in double, then the pieces in order.
#include <algorithm>

#include "kernels/cpu/block_io.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kernels.h"
#include "kernels/plan/channel_rows.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

constexpr std::int64_t kPiece = 32 * 1024;  ///< elements that one piece aims at
constexpr std::int64_t kMaxPieces = 16;

struct Pieces {
  std::int64_t rows, width, count, per_piece;
};

Pieces pieces_of(const KernelCall& call) {
  const std::int64_t rows = kernels::channel_rows(call.inputs.at(0).type),
                     width = call.outputs.at(0).type.elements();
  const std::int64_t wanted = std::clamp<std::int64_t>(rows * width / kPiece, 1, kMaxPieces);
  const std::int64_t per_piece = std::max<std::int64_t>(1, (rows + wanted - 1) / wanted);
  return {rows, width, (rows + per_piece - 1) / per_piece, per_piece};
}

/// Adds `rows` rows of `n` channels from element `at` on, which follow each other if there are
/// several, to the channels' sums.
template <class T>
void add_rows(const KernelCall& call, double* sums, double* products, std::int64_t at,
              std::int64_t rows, std::int64_t n) {
  const bool squares = call.inputs.size() == 1;
  Block<T> xs, ys;
  const T* const x = xs.read(call.inputs.front(), at, rows * n);
  const T* const y = squares ? x : ys.read(call.inputs.back(), at, rows * n);
  for (std::int64_t r = 0; r < rows; ++r)
    loops<T>(isa().layer_norm).add_columns(products, sums, x + r * n, y + r * n, 0, 1, n);
}

/// Narrow rows are read many at a time, wide ones in blocks.
template <class T>
void sum_piece(const KernelCall& call, const Pieces& pieces, std::int64_t piece, double* sums) {
  const std::int64_t width = pieces.width,
                     last = std::min((piece + 1) * pieces.per_piece, pieces.rows),
                     at_once = std::max<std::int64_t>(1, Block<T>::kSize / width);
  std::fill(sums, sums + 2 * width, 0.0);
  for (std::int64_t row = piece * pieces.per_piece, rows; row < last; row += rows) {
    rows = std::min(at_once, last - row);
    for_blocks(width, [&](std::int64_t i, std::int64_t n) {
      add_rows<T>(call, sums + i, sums + width + i, row * width + i, rows, n);
    });
  }
}

template <class T>
void sum_pieces(const KernelCall& call, const Pieces& pieces) {
  auto* const sums = reinterpret_cast<double*>(call.workspace);
  call.team->parallel_for(pieces.count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p)
      sum_piece<T>(call, pieces, p, sums + p * 2 * pieces.width);
  });
}

void run(const KernelCall& call) {
  const Pieces pieces = pieces_of(call);
  if (pieces.width == 0) return;
  needs_double(call.inputs[0].type.dtype) ? sum_pieces<double>(call, pieces)
                                          : sum_pieces<float>(call, pieces);
  const auto* const sums = reinterpret_cast<const double*>(call.workspace);
  for (std::int64_t i = 0; i < 2 * pieces.width; ++i) {
    double sum = 0;
    for (std::int64_t p = 0; p < pieces.count; ++p) sum += sums[p * 2 * pieces.width + i];
    put_element(call.outputs[i < pieces.width ? 0 : 1], i % pieces.width, sum);
  }
}

std::int64_t workspace_bytes(const KernelCall& call) {
  const Pieces pieces = pieces_of(call);
  return pieces.count * 2 * pieces.width * static_cast<std::int64_t>(sizeof(double));
}

}  // namespace

const KernelDef channel_sums{run, nullptr, workspace_bytes};
const KernelDef channel_products{run, nullptr, workspace_bytes};

}  // namespace alpa::cpu
