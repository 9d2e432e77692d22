#pragma once
/// Sums over the rows of a matrix, two per column, carried in double: rows are cut into pieces that
/// the shape alone determines, one pass sums pieces, a second one adds them. No atomics, so they
/// repeat bit for bit.
#include <cstdint>

namespace alpa::cuda {

/// Rows of a piece and number of pieces.
struct RowPieces {
  std::int64_t per_piece = 1, count = 0;
};
constexpr RowPieces row_pieces(std::int64_t rows, std::int64_t width) {
  constexpr std::int64_t few_rows = 32, columns = 128, blocks = 512;  // blocks fill a card
  const std::int64_t side_by_side = width > columns ? (width + columns - 1) / columns : 1;
  const std::int64_t most = (rows + few_rows - 1) / few_rows,
                     wanted = (blocks + side_by_side - 1) / side_by_side;
  if (most == 0) return {};
  const std::int64_t count = most < wanted ? most : wanted, per_piece = (rows + count - 1) / count;
  return {per_piece, (rows + per_piece - 1) / per_piece};
}

/// Scratch of the pieces: two doubles per column and piece.
constexpr std::int64_t column_pieces_bytes(std::int64_t rows, std::int64_t width) {
  return row_pieces(rows, width).count * 2 * width * static_cast<std::int64_t>(sizeof(double));
}

}  // namespace alpa::cuda
