#pragma once
/// Units that members of a group exchange: runs of elements, shards, and pieces, the partial
/// results of subtrees of members.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "alpa/mesh/sharding_spec.h"
#include "combine.h"
#include "src/tensor/box_copy.h"
#include "src/tensor/kernel.h"

namespace alpa::comm {

using At = std::array<std::int64_t, BoxCopy::kMaxRank>;
using Tensors = std::span<const KernelTensor>;

/// Another process, and its members.
struct Peer {
  int rank = 0;
  std::vector<int> members;
  std::vector<std::pair<int, int>> pieces;  ///< `subtrees` of its members
};

/// A run of elements of one tensor.
struct Range {
  std::size_t tensor = 0;
  std::int64_t begin = 0, end = 0;
  std::int64_t elements() const { return end - begin; }
};

inline std::int64_t bytes_of(const KernelTensor& tensor) { return tensor.type.bytes(); }
inline std::int64_t element_bytes(const KernelTensor& tensor) {
  return static_cast<std::int64_t>(size_of(tensor.type.dtype));
}

inline std::int64_t total_bytes(Tensors tensors) {
  std::int64_t bytes = 0;
  for (const KernelTensor& tensor : tensors) bytes += bytes_of(tensor);
  return bytes;
}

inline std::int64_t total_elements(Tensors tensors) {
  std::int64_t elements = 0;
  for (const KernelTensor& tensor : tensors) elements += tensor.type.elements();
  return elements;
}

/// Source of an operand of a combination: its members [begin, end) and their process.
struct Origin {
  int begin = 0, end = 0;
  int peer = -1;  ///< index of the process that sends the piece; -1: a member of this process
};

/// Bytes of an element of a piece: of several members it is a partial result.
inline std::int64_t piece_element_bytes(DType dtype, int members) {
  return static_cast<std::int64_t>(size_of(members > 1 ? partial_dtype(dtype) : dtype));
}

/// The next multiple of `unit`, a power of two.
inline std::int64_t aligned(std::int64_t at, std::int64_t unit) { return at + (-at & (unit - 1)); }
template <class Byte>
Byte* aligned(Byte* at, std::int64_t unit) {
  return at + (-reinterpret_cast<std::intptr_t>(at) & (unit - 1));
}

/// Where the next piece of a message is, of `count` elements combined from `members`: at a multiple
/// of its elements' bytes. `at`, a position or an address, moves behind it. Nothing takes no room.
template <class Place>
Place take_piece(Place& at, DType dtype, int members, std::int64_t count) {
  if (count == 0) return at;
  const std::int64_t size = piece_element_bytes(dtype, members);
  at = aligned(at, size);
  return std::exchange(at, at + count * size);
}

/// Moves `at` behind all these pieces.
template <class Place>
void take_pieces(Place& at, DType dtype, const std::vector<std::pair<int, int>>& pieces,
                 std::int64_t count) {
  for (const auto& [begin, end] : pieces) take_piece(at, dtype, end - begin, count);
}

/// Zeros except for `value` at `dim`, for a tensor of rank `rank`.
inline Extents origin(At& at, int rank, int dim, std::int64_t value) {
  at.fill(0);
  at[dim] = value;
  return {at.data(), static_cast<std::size_t>(rank)};
}

/// Shard `member` of dimension `dim`, which has `whole` elements: its extent.
inline std::int64_t shard_size(std::int64_t whole, std::int64_t chunk, int member) {
  return std::clamp<std::int64_t>(whole - member * chunk, 0, chunk);
}

/// `shape` with the extent of `member`'s shard.
inline Extents shard_shape(At& at, const Shape& shape, ShardedDim sharded, int member) {
  std::copy(shape.begin(), shape.end(), at.begin());
  at[sharded.dim] = shard_size(shape[sharded.dim], sharded.chunk, member);
  return {at.data(), shape.size()};
}

inline std::int64_t product(Extents extents) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : extents) elements *= extent;
  return elements;
}

/// The shard of a member in a tensor of shape `whole`, and the same shard packed, as a tensor by
/// itself.
class Shard {
 public:
  Shard(const Shape& whole, ShardedDim sharded, int member)
      : whole_(whole), extent_(shard_shape(extents_, whole, sharded, member)) {
    const int rank = static_cast<int>(whole.size());
    // The begin of an empty shard may be behind the end of the tensor.
    begin_ =
        origin(in_whole_, rank, sharded.dim, extent_[sharded.dim] > 0 ? member * sharded.chunk : 0);
    zero_ = origin(in_packed_, rank, sharded.dim, 0);
  }
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  std::int64_t elements() const { return product(extent_); }
  BoxCopy to_packed() const { return BoxCopy::make(whole_, begin_, extent_, zero_, extent_); }
  BoxCopy from_packed() const { return BoxCopy::make(extent_, zero_, whole_, begin_, extent_); }

 private:
  At extents_, in_whole_, in_packed_;
  Extents whole_, extent_, begin_, zero_;
};

}  // namespace alpa::comm
