// kernels/cpu/channel_sums.cc — channel_sums and channel_products: Σ x and Σ x·y of every channel.
#include <algorithm>

#include "kernels/cpu/block_io.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/row_pieces.h"
#include "kernels/plan/channel_rows.h"

namespace alpa::cpu {
namespace {

RowPieces pieces_of(const KernelCall& call) {
  return row_pieces(kernels::channel_rows(call.inputs.at(0).type),
                    call.outputs.at(0).type.elements(), call.sums.is_fixed());
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
  loops<T>(isa().layer_norm).add_rows(products, sums, x, y, rows, n);
}

/// Narrow rows are read many at a time, wide ones in blocks.
template <class T>
void add_all(const KernelCall& call, const RowPieces& pieces) {
  const std::int64_t width = pieces.width,
                     at_once = std::max<std::int64_t>(1, Block<T>::kSize / width);
  sum_pieces(call, pieces,
             [&](std::int64_t begin, std::int64_t end, double* sums, double* products) {
               for (std::int64_t row = begin, rows; row < end; row += rows) {
                 rows = std::min(at_once, end - row);
                 for_blocks(width, [&](std::int64_t i, std::int64_t n) {
                   add_rows<T>(call, sums + i, products + i, row * width + i, rows, n);
                 });
               }
             });
}

void run(const KernelCall& call) {
  const RowPieces pieces = pieces_of(call);
  if (pieces.width == 0) return;
  needs_double(call.inputs[0].type.dtype) ? add_all<double>(call, pieces)
                                          : add_all<float>(call, pieces);
  add_pieces(call, pieces, 0);
}

std::int64_t workspace_bytes(const KernelCall& call) { return pieces_of(call).workspace_bytes(); }

constexpr KernelDef kAtOnce{run, nullptr, workspace_bytes};

}  // namespace

const KernelDef channel_sums = in_chunks<kAtOnce>;
const KernelDef channel_products = in_chunks<kAtOnce>;

}  // namespace alpa::cpu
