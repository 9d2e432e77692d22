// kernels/cpu/strided_copy.cc — copies strided views into dense tensors:
// transposition, broadcasting and packing
#include "kernels/cpu/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "alpa/base/error.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

constexpr std::int64_t kTile = 16;   ///< side of a transposed tile
constexpr std::int64_t kBlock = 64;  ///< side of a block of tiles
constexpr std::int64_t kMinBytesPerThread = 64 * 1024;

/// Source element of a dense index over the leading `dims` dimensions.
std::int64_t source_of(const kernels::StridedCopy& plan, int dims, std::int64_t index) {
  std::int64_t element = 0;
  for (int d = dims - 1; d >= 0; index /= plan.extents[d--])
    element += index % plan.extents[d] * plan.strides[d];
  return element;
}

/// One line of the innermost dimension.
template <class T>
void copy_line(T* dst, const T* src, std::int64_t n, std::int64_t stride) {
  if (stride == 1)
    std::memcpy(dst, src, n * sizeof(T));
  else if (stride == 0)
    std::fill(dst, dst + n, *src);
  else
    for (std::int64_t i = 0; i < n; ++i) dst[i] = src[i * stride];
}

/// Pieces of the innermost dimension, so that one long line is shared between threads too.
template <class T>
void copy_lines(const kernels::StridedCopy& plan, T* dst, const T* src, ThreadTeam& team) {
  const int outer = static_cast<int>(plan.extents.size()) - 1;
  const std::int64_t line = plan.extents.back(), stride = plan.strides.back();
  const std::int64_t piece = std::min<std::int64_t>(line, 64 * 1024 / sizeof(T));
  const std::int64_t per_line = (line + piece - 1) / piece;
  const std::int64_t grain = std::max<std::int64_t>(1, kMinBytesPerThread / (piece * sizeof(T)));
  team.for_each(plan.elements / line * per_line, grain, [&](std::int64_t i) {
    const std::int64_t l = i / per_line, start = i % per_line * piece;
    copy_line(dst + l * line + start, src + source_of(plan, outer, l) + start * stride,
              std::min(piece, line - start), stride);
  });
}

/// dst[i·dst_stride + j] = src[j·src_stride + i] for i < rows, j < columns, both at most kTile:
/// reads and writes whole lines.
template <class T>
void transpose_tile(T* dst, std::int64_t dst_stride, const T* src, std::int64_t src_stride,
                    std::int64_t rows, std::int64_t columns) {
  T tile[kTile][kTile];
  if (rows == kTile && columns == kTile) {
    for (int j = 0; j < kTile; ++j)
      for (int i = 0; i < kTile; ++i) tile[i][j] = src[j * src_stride + i];
    for (int i = 0; i < kTile; ++i) std::memcpy(dst + i * dst_stride, tile[i], sizeof tile[i]);
    return;
  }
  for (int j = 0; j < columns; ++j)
    for (int i = 0; i < rows; ++i) tile[i][j] = src[j * src_stride + i];
  for (int i = 0; i < rows; ++i) std::memcpy(dst + i * dst_stride, tile[i], columns * sizeof(T));
}

/// Prefetches the lines of the next tile: each is in another page, which hardware
/// prefetchers do not cross.
template <class T>
void prefetch_tile(const T* dst, std::int64_t dst_stride, const T* src, std::int64_t src_stride,
                   std::int64_t rows, std::int64_t columns) {
  for (std::int64_t i = 0; i < std::min(kTile, rows); ++i)
    __builtin_prefetch(dst + i * dst_stride, 1);
  for (std::int64_t j = 0; j < std::min(kTile, columns); ++j)
    __builtin_prefetch(src + j * src_stride);
}

template <class T>
void copy_block(T* dst, std::int64_t dst_stride, const T* src, std::int64_t src_stride,
                std::int64_t height, std::int64_t width) {
  for (std::int64_t r = 0; r < height; r += kTile)
    for (std::int64_t c = 0; c < width; c += kTile) {
      const bool last = c + kTile >= width;
      const std::int64_t next_r = last ? r + kTile : r, next_c = last ? 0 : c + kTile;
      prefetch_tile(dst + next_r * dst_stride + next_c, dst_stride,
                    src + next_c * src_stride + next_r, src_stride, height - next_r,
                    width - next_c);
      transpose_tile(dst + r * dst_stride + c, dst_stride, src + c * src_stride + r, src_stride,
                     std::min(kTile, height - r), std::min(kTile, width - c));
    }
}

/// The position of a block of kBlock rows of the fast dimension and kBlock
/// columns of the innermost one.
struct Block {
  std::int64_t from = 0, to = 0, row = 0, column = 0;
};
Block block_at(const kernels::StridedCopy& plan, std::int64_t index) {
  Block block;
  for (int d = static_cast<int>(plan.extents.size()) - 1; d >= 0; --d) {
    const bool innermost = d == static_cast<int>(plan.extents.size()) - 1,
               tiled = innermost || d == plan.fast;
    const std::int64_t extent = tiled ? (plan.extents[d] + kBlock - 1) / kBlock : plan.extents[d];
    const std::int64_t i = index % extent * (tiled ? kBlock : 1);
    if (innermost)
      block.column = i;
    else if (tiled)
      block.row = i;
    block.from += i * plan.strides[d];
    block.to += i * plan.dst_strides[d];
    index /= extent;
  }
  return block;
}

/// Transposes the fast dimension with the innermost one, for all others: blocks that touch few
/// pages, and tiles in them.
template <class T>
void copy_tiles(const kernels::StridedCopy& plan, T* dst, const T* src, ThreadTeam& team) {
  const std::int64_t rows = plan.extents[plan.fast], columns = plan.extents.back();
  const std::int64_t dst_stride = plan.dst_strides[plan.fast], src_stride = plan.strides.back();
  const auto blocks = [](std::int64_t extent) { return (extent + kBlock - 1) / kBlock; };
  const std::int64_t count = plan.elements / (rows * columns) * blocks(rows) * blocks(columns);
  const std::int64_t block_bytes = std::min(kBlock, rows) * std::min(kBlock, columns) * sizeof(T);
  const std::int64_t grain = std::max<std::int64_t>(1, kMinBytesPerThread / block_bytes);
  team.for_each(count, grain, [&](std::int64_t b) {
    const Block block = block_at(plan, b);
    copy_block(dst + block.to, dst_stride, src + block.from, src_stride,
               std::min(kBlock, rows - block.row), std::min(kBlock, columns - block.column));
  });
}

template <class T>
void copy_as(const kernels::StridedCopy& plan, std::byte* dst, const std::byte* src,
             ThreadTeam& team) {
  T* const to = reinterpret_cast<T*>(dst);
  const T* const from = reinterpret_cast<const T*>(src);
  if (plan.elements == 0) return;
  if (plan.extents.empty()) {
    *to = *from;
    return;
  }
  if (plan.fast >= 0)
    copy_tiles(plan, to, from, team);
  else
    copy_lines(plan, to, from, team);
}

}  // namespace

void strided_copy(const kernels::StridedCopy& plan, std::byte* dst, const std::byte* src,
                  ThreadTeam& team) {
  switch (plan.element) {
    case 1: return copy_as<std::uint8_t>(plan, dst, src, team);
    case 2: return copy_as<std::uint16_t>(plan, dst, src, team);
    case 4: return copy_as<std::uint32_t>(plan, dst, src, team);
    case 8: return copy_as<std::uint64_t>(plan, dst, src, team);
    default: bug("strided copy of elements of {} bytes", plan.element);
  }
}

}  // namespace alpa::cpu
