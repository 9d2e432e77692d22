#pragma once
/// Use of an arena's bytes over time, for finding room for one more block.
#include <cstdint>
#include <vector>

#include "src/lower/device_program.h"

namespace alpa::lower {

/// Blocks that are placed. A search looks at the ranges of bytes that they leave together, not at
/// every block: a segment tree over time keeps, for each of its intervals, the bytes of the blocks
/// that cover it, and those of all blocks that touch it, adjacent ones merged.
class ArenaGaps {
 public:
  /// Blocks live at positions -1 to `positions`.
  explicit ArenaGaps(int positions);

  /// The block of `bytes` > 0 bytes at `offset` is placed.
  void place(const LiveRange& range, std::int64_t offset, std::int64_t bytes);

  /// The offset, at least `begin`, of the lowest gap that has `bytes` bytes throughout `range`, or
  /// of the smallest such gap if `tight`. Above all blocks is the last resort.
  std::int64_t find(const LiveRange& range, std::int64_t bytes, std::int64_t begin, bool tight);

  /// Ranges of bytes that searches have looked at so far: their work.
  std::int64_t looks() const { return looks_; }

 private:
  struct Bytes {
    std::int64_t begin, end;
  };
  using ByteRanges = std::vector<Bytes>;  ///< ascending, apart from each other
  struct Node {
    ByteRanges covering;  ///< of blocks that live throughout the interval, and not its parent's
    ByteRanges touching;  ///< of all blocks that live in it and are not covering an outer one
  };

  static void add(ByteRanges& ranges, Bytes bytes);
  /// Calls visit(node, whether the range has all of its interval) from the root down.
  template <class Visit>
  void for_each(const LiveRange& range, Visit&& visit) const;

  int size_;  ///< a power of two, of intervals of one position
  std::vector<Node> nodes_;
  std::int64_t looks_ = 0;
};

}  // namespace alpa::lower
