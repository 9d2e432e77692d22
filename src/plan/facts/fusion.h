#pragma once
/// The forecast of fusion: which elementwise nodes run as one loop, and which tensors
/// each of them reads and writes. Pricing, memory counting and the fusion pass
/// (spmd/program.h) use the same function.
#include <cstdint>
#include <vector>

#include "alpa/ir/graph.h"
#include "alpa/mesh/sharding_spec.h"

namespace alpa::intra_op {

/// Numbers of nodes by loop, ascending; every elementwise node is in one. The loop runs at its last
/// member. Members have one iteration space (the shape of their results), one region and one
/// precision; in a partitioned program, whose `specs` per value are given, one spec, too. No member
/// is delayed until the result of a later collective.
std::vector<std::vector<int>> fusion_groups(const Graph& graph,
                                            const std::vector<ShardingSpec>* specs = nullptr);

/// How a node of a loop gets an operand.
struct LoopRead {
  enum class Kind : std::uint8_t {
    memory,   ///< reads all of it
    through,  ///< reads the tensor that a broadcast repeats
    nothing,  ///< a constant, or read already by a member before
    inside,   ///< made by another member
  } kind = Kind::memory;
  std::vector<int> dims;  ///< through: dimensions of the operand that the tensor behind it has
  auto operator<=>(const LoopRead&) const = default;
};

/// A node's part in its loop. The default is a node on its own.
struct LoopShare {
  bool launches = true;  ///< the last member; of several members one launches
  /// a broadcast or constant that becomes part of all loops that read it
  bool vanishes = false;
  std::vector<LoopRead> reads;  ///< per operand; empty: all from memory
  std::vector<bool> writes;     ///< per result: also read outside the loop; empty: all are written

  /// True if another member of the loop makes the operand.
  bool reads_inside(int operand) const {
    return !reads.empty() && reads[operand].kind == LoopRead::Kind::inside;
  }
  auto operator<=>(const LoopShare&) const = default;
};

/// Per node.
std::vector<LoopShare> loop_shares(const Graph& graph);

}  // namespace alpa::intra_op
