#pragma once
/// Live bytes along a partitioned program, on the first device of every group of meshes: an
/// estimate from sizes and uses of values, before memory is planned. Points are nodes. What a
/// micro-batch keeps for its backward run has places of its own where several are in flight.
#include <vector>

#include "src/spmd/program.h"

namespace alpa::spmd {

/// `bytes` more (or fewer) at points [begin, end).
struct Growth {
  int begin, end;
  std::int64_t bytes;
};

class LiveBytes {
 public:
  explicit LiveBytes(const SpmdProgram& program, std::int64_t slack_bytes = 0);

  /// Takes all of the growth on the devices of node `n`; or none, and returns false, if somewhere
  /// more would live than their peak at the start and `slack_bytes`.
  bool grow(int n, const std::vector<Growth>& growth);

  /// Most bytes that live at once on devices of `mesh`, state excluded.
  std::int64_t peak(int mesh) const { return groups_[group_of_mesh_[mesh]].peak; }
  /// Bytes of the operands that no node reads after node `n`. State, and values in
  /// its memory, count nothing.
  std::int64_t freed_by(int n) const;
  /// Bytes of the results of node `n`.
  std::int64_t allocated_by(int n) const;

 private:
  /// Devices that meshes share.
  struct Group {
    std::vector<std::int64_t> live;  ///< per node
    std::int64_t peak = 0;
  };
  /// Points between which a value is in memory; copies of it, one per micro-batch in flight.
  struct Life {
    int begin, end, copies;
  };
  bool takes_over_operand(int value) const;
  Life life_of(int value, int passes) const;

  const SpmdProgram& program_;
  const Graph& graph_;
  /// per value; 0 for what lives always: state and its new content, made in place, and what is made
  /// once for all micro-batches
  std::vector<std::int64_t> bytes_;
  std::vector<int> last_use_;  ///< per value: a node; the number of nodes for metrics
  std::vector<int> group_of_mesh_;
  std::vector<Group> groups_;
  const std::int64_t slack_bytes_;
};

}  // namespace alpa::spmd
