// kernels/cuda/shard_blocks.cc — packs a tensor split along one dimension into one dense block
// per shard, and unpacks it
#include "kernels/cuda/shard_blocks.h"

#include <algorithm>

#include "alpa/base/error.h"

namespace alpa::cuda {
namespace {

/// `full` blocks of `chunk` from dimension position `first` on, as a copy from the tensor to
/// position `to`.
CopyLaunch pack_alike(const ShardBlocks& b, int element, std::int64_t first, std::int64_t full,
                      std::int64_t chunk, std::int64_t to) {
  const std::int64_t extent[] = {full, b.outer, chunk * b.inner},
                     tensor[] = {chunk * b.inner, b.extent * b.inner, 1},
                     block[] = {b.outer * chunk * b.inner, chunk * b.inner, 1};
  CopyLaunch copy;
  const bool planned = plan_copy(copy, element, 3, extent, tensor, block, first * b.inner, to);
  invariant(planned, "packing blocks: more than {} dimensions", kMaxDims);
  return copy;
}

}  // namespace

std::int64_t ShardBlocks::extent_of(int block) const {
  return std::clamp<std::int64_t>(extent - block * chunk, 0, chunk);
}

std::int64_t ShardBlocks::begin_of(int block) const {
  return outer * std::min(block * chunk, extent) * inner;
}

ShardBlocks shard_blocks(const Shape& shape, int dim, std::int64_t chunk, int count) {
  ShardBlocks blocks;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d)
    (d < dim ? blocks.outer : d == dim ? blocks.extent : blocks.inner) *= shape[d];
  blocks.chunk = chunk, blocks.count = count;
  invariant(blocks.extent <= chunk * count, "{} shards of {} of dimension {} of {}", count, chunk,
            dim, alpa::to_string(shape));
  return blocks;
}

BlockCopies pack_blocks(const ShardBlocks& blocks, int element) {
  BlockCopies result;
  const std::int64_t full = blocks.chunk == 0 ? 0 : blocks.extent / blocks.chunk,
                     rest = blocks.extent - full * blocks.chunk;
  if (full > 0)
    result.copies[result.count++] = pack_alike(blocks, element, 0, full, blocks.chunk, 0);
  if (rest > 0)
    result.copies[result.count++] = pack_alike(blocks, element, full * blocks.chunk, 1, rest,
                                               blocks.outer * full * blocks.chunk * blocks.inner);
  return result;
}

BlockCopies unpack_blocks(const ShardBlocks& blocks, int element) {
  BlockCopies result = pack_blocks(blocks, element);
  for (CopyLaunch& copy : result.copies) {
    std::swap(copy.x_begin, copy.y_begin);
    for (int d = 0; d < kMaxDims; ++d) std::swap(copy.x_stride[d], copy.y_stride[d]);
  }
  return result;
}

CopyLaunch block_copy(const ShardBlocks& blocks, int element, int block) {
  return pack_alike(blocks, element, block * blocks.chunk, 1, blocks.extent_of(block), 0);
}

std::int64_t block_scratch_bytes(const ShardBlocks& blocks, const TensorType& type) {
  return blocks.in_place() ? 0 : gathered_scratch_bytes(type, 1);
}

std::int64_t gathered_scratch_bytes(const TensorType& type, int count) {
  return (type.bytes() * count + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

}  // namespace alpa::cuda
