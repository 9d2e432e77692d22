#pragma once
/// A tensor split along one dimension, as one dense block per shard: the form required by
/// collectives without dimensions (NCCL's). Plain arithmetic, which needs no card.
#include "kernels/cuda/copy.h"
#include "src/tensor/kernel.h"

namespace alpa::cuda {

/// A tensor [outer, extent, inner], cut along `extent` into `count` shards of nominally
/// `chunk`; the last ones may be short or empty. Block j is [outer, its extent, inner], dense;
/// blocks follow one another.
struct ShardBlocks {
  std::int64_t outer = 1, extent = 1, inner = 1, chunk = 1;
  int count = 1;

  /// Whether the blocks are already contiguous in the tensor, so that no packing is needed.
  bool in_place() const { return outer == 1 || count == 1; }
  bool even() const { return extent == chunk * count; }
  std::int64_t extent_of(int block) const;
  std::int64_t elements_of(int block) const { return outer * extent_of(block) * inner; }
  /// First element of a block, of all blocks laid end to end.
  std::int64_t begin_of(int block) const;
};

/// Tensor of `shape`, cut along dimension `dim`.
ShardBlocks shard_blocks(const Shape& shape, int dim, std::int64_t chunk, int count);

/// Copies of elements of `element` bytes: from the tensor into blocks, or back. At most two: the
/// full blocks, and the short one.
struct BlockCopies {
  int count = 0;
  CopyLaunch copies[2];
};
BlockCopies pack_blocks(const ShardBlocks& blocks, int element);
BlockCopies unpack_blocks(const ShardBlocks& blocks, int element);

/// Copy of one block from the tensor into a dense one, in elements of `element` bytes.
CopyLaunch block_copy(const ShardBlocks& blocks, int element, int block);

/// Scratch for the blocks of a tensor of `type`: 0 if the tensor already consists of its blocks.
/// Parts of scratch begin at multiples of kBlockAlignment.
std::int64_t block_scratch_bytes(const ShardBlocks& blocks, const TensorType& type);
inline constexpr std::int64_t kBlockAlignment = 256;
/// Scratch for a tensor of each of `count` ranks.
std::int64_t gathered_scratch_bytes(const TensorType& type, int count);

}  // namespace alpa::cuda
