// kernels/cpu/row_pieces.cc — how rows are cut, and the sums of all pieces
#include "kernels/cpu/row_pieces.h"

#include "kernels/cpu/block_io.h"

namespace alpa::cpu {
namespace {

constexpr std::int64_t kMaxPieces = 16;
constexpr std::int64_t kFixedRows = 64;  ///< of a piece, at least, where the width does not count
constexpr std::int64_t kGrain = 4096;    ///< columns that a thread adds up at least

}  // namespace

RowPieces row_pieces(std::int64_t rows, std::int64_t width, bool fixed) {
  const std::int64_t full = fixed ? rows / kFixedRows : rows * width / kRowPiece,
                     wanted = std::clamp<std::int64_t>(full, 1, kMaxPieces);
  const std::int64_t per_piece = std::max<std::int64_t>(1, (rows + wanted - 1) / wanted);
  return {rows, width, (rows + per_piece - 1) / per_piece, per_piece};
}

void add_pieces(const KernelCall& call, const RowPieces& pieces, std::size_t first) {
  const std::int64_t width = pieces.width;
  const auto outputs = static_cast<std::int64_t>(call.outputs.size() - first);
  const auto* const sums = reinterpret_cast<const double*>(call.workspace);
  call.team->for_each(outputs * width, kGrain, [&](std::int64_t i) {
    double sum = 0;
    for (std::int64_t p = 0; p < pieces.count; ++p) sum += sums[p * 2 * width + i];
    put_element(call.outputs[first + (i < width ? 0 : 1)], i % width, sum);
  });
}

}  // namespace alpa::cpu
