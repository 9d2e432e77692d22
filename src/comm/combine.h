#pragma once
/// Combines runs of memory elementwise, in the one order that all groups use. Members 0 … n-1 are
/// the leaves of a tree: a range of members is split at the largest power of two below its length,
/// and the left part's result comes first. 6 members: ((0 + 1) + (2 + 3)) + (4 + 5). So 2^k members
/// that begin at a multiple of 2^k are a subtree, and a process that holds them all can combine
/// them alone.
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "alpa/base/dtype.h"
#include "alpa/mesh/sharding_spec.h"

namespace alpa::comm {

/// Member at which the range [begin, end), of at least two members, is split.
int split_point(int begin, int end);

/// The subtrees of [0, size) that together hold exactly `members` (ascending), as few as possible,
/// ascending: ranges [begin, end). Throws Bug if members do not ascend within [0, size).
std::vector<std::pair<int, int>> subtrees(std::span<const int> members, int size);

/// The elements of members [begin, end), a subtree, combined. One member's own are of the tensor's
/// type. Those of several members are a partial result, of `partial_dtype`.
struct Subtotal {
  const std::byte* data = nullptr;
  int begin = 0, end = 0;
  bool single() const { return end - begin == 1; }
};

/// The type of partial results: f32 for bf16 and f16, which are rounded once, at the end.
DType partial_dtype(DType dtype);

/// Combines `parts`, which are ascending and make up a subtree, into every target: `count`
/// elements. Integers wrap; a maximum or a log_sum_exp is NaN if one element is. A target may be
/// the memory of a part of the same element size. Targets have elements of `dtype`, or, if
/// `partial`, of `partial_dtype(dtype)`. Throws Bug if the parts do not make up a subtree, or if a
/// log_sum_exp is of integers.
void combine(DType dtype, Combiner combiner, std::span<const Subtotal> parts,
             std::span<std::byte* const> targets, std::int64_t count, bool partial = false);

}  // namespace alpa::comm
