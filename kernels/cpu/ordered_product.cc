// kernels/cpu/ordered_product.cc — products whose sums have one order, whatever their other
// extents: tiles of one size, padded with zeros, each of which runs through k from its begin to its
// end
#include <algorithm>
#include <bit>

#include "alpa/base/error.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/matmul.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

// A block of the result, and the part of k that is packed at a time.
constexpr std::int64_t kRows = 16 * kTileRows, kColumns = 128, kDepth = 128;
constexpr int kLevels = 5;  ///< of the tree over chunks: up to 16 of them

std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// A block of m × n results, and what its product needs.
struct Block {
  std::int64_t m, n;
  std::int64_t lead;  ///< of sums: n, in whole tiles
  Matrix a, b;
  alignas(64) float packed_a[kRows * kDepth];
  alignas(64) float packed_b[kColumns * kDepth];
  /// Sums of chunks: those of ever fewer chunks follow each other, as in a binary counter.
  alignas(64) float sums[kLevels][kRows * kColumns];
};

/// lines [count, depth] of `from` to panels of `width` lines, [depth, width] each; lines behind the
/// last are 0. `line`, `step`: strides of lines and along them.
void pack(float* to, const float* from, std::int64_t count, std::int64_t depth, std::int64_t width,
          std::int64_t line, std::int64_t step) {
  for (std::int64_t first = 0; first < count; first += width, to += width * depth) {
    const float* const panel = from + first * line;
    const std::int64_t n = std::min(width, count - first);
    if (n < width) std::fill_n(to, width * depth, 0.0F);
    if (line == 1)
      for (std::int64_t i = 0; i < depth; ++i) std::copy_n(panel + i * step, n, to + i * width);
    else
      for (std::int64_t l = 0; l < n; ++l)
        for (std::int64_t i = 0; i < depth; ++i) to[i * width + l] = panel[l * line + i * step];
  }
}

/// sums += a b over k in [begin, end).
void add_range(Block& block, float* sums, std::int64_t begin, std::int64_t end) {
  const ProductLoops& loops = isa().product;
  for (std::int64_t k = begin, depth; k < end; k += depth) {
    depth = std::min(kDepth, end - k);
    pack(block.packed_a, block.a.data + k * block.a.column, block.m, depth, kTileRows, block.a.row,
         block.a.column);
    pack(block.packed_b, block.b.data + k * block.b.row, block.n, depth, loops.columns,
         block.b.column, block.b.row);
    for (std::int64_t column = 0; column < block.n; column += loops.columns)
      for (std::int64_t row = 0; row < block.m; row += kTileRows)
        loops.tile(sums + row * block.lead + column, block.lead, block.packed_a + row * depth,
                   block.packed_b + column * depth, depth);
  }
}

/// The block's sums over all chunks, in sums[0].
void sum_chunks(Block& block, std::int64_t k, int chunks) {
  const std::int64_t used = up(block.m, kTileRows) * kTileRows * block.lead;
  int level = 0;
  for (int chunk = 0; chunk < chunks; ++chunk, ++level) {
    std::fill_n(block.sums[level], used, 0.0F);
    add_range(block, block.sums[level], k / chunks * chunk, k / chunks * (chunk + 1));
    for (int pairs = chunk; pairs & 1; pairs >>= 1, --level)
      for (std::int64_t i = 0; i < used; ++i) block.sums[level - 1][i] += block.sums[level][i];
  }
}

}  // namespace

void ordered_product(std::int64_t m, std::int64_t n, std::int64_t k, int chunks, Matrix a, Matrix b,
                     bool add, float* c, std::int64_t c_lead) {
  invariant(k % chunks == 0 && std::has_single_bit(static_cast<unsigned>(chunks)) &&
                chunks < 1 << kLevels && kColumns % isa().product.columns == 0,
            "ordered_product: {} in {} chunks", k, chunks);
  Block block;
  for (std::int64_t row = 0; row < m; row += kRows)
    for (std::int64_t column = 0; column < n; column += kColumns) {
      block.m = std::min(kRows, m - row), block.n = std::min(kColumns, n - column);
      block.lead = up(block.n, isa().product.columns) * isa().product.columns;
      block.a = {a.data + row * a.row, a.row, a.column};
      block.b = {b.data + column * b.column, b.row, b.column};
      sum_chunks(block, k, chunks);
      for (std::int64_t r = 0; r < block.m; ++r) {
        const float* const sums = block.sums[0] + r * block.lead;
        float* const to = c + (row + r) * c_lead + column;
        for (std::int64_t i = 0; i < block.n; ++i) to[i] = add ? to[i] + sums[i] : sums[i];
      }
    }
}

void ordered_matmul(const kernels::MatmulShape& s, int chunks, float* c, const float* a,
                    const float* b, ThreadTeam& team) {
  const std::int64_t down = up(s.m, kRows), across = up(s.n, kColumns);
  team.for_each(s.batches() * down * across, 1, [&](std::int64_t task) {
    const kernels::BatchOffsets at = kernels::batch_offsets(s.batch, task / (down * across));
    const std::int64_t row = task / across % down * kRows, column = task % across * kColumns;
    ordered_product(std::min(kRows, s.m - row), std::min(kColumns, s.n - column), s.k, chunks,
                    {a + at.a + row * s.a_m, s.a_m, s.a_k},
                    {b + at.b + column * s.b_n, s.b_k, s.b_n}, false,
                    c + at.c + row * s.c_m + column, s.c_m);
  });
}

}  // namespace alpa::cpu
