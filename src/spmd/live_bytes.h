#pragma once
/// Live bytes along a partitioned program, on the device at coordinate 0: an estimate from sizes
/// and uses of values, before memory is planned. Points are nodes.
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

  /// Takes all of the growth; or none, and returns false, if somewhere more would live than the
  /// peak at the start and `slack_bytes`.
  bool grow(const std::vector<Growth>& growth);

  /// Most bytes that live at once, state excluded.
  std::int64_t peak() const { return peak_; }
  /// Bytes of the operands that no node reads after node `n`. State, and values in
  /// its memory, count nothing.
  std::int64_t freed_by(int n) const;
  /// Bytes of the results of node `n`.
  std::int64_t allocated_by(int n) const;

 private:
  bool takes_over_operand(int value) const;

  const Graph& graph_;
  /// per value; 0 for what lives always: state and its new content, made in place, and what is made
  /// once for all micro-batches
  std::vector<std::int64_t> bytes_;
  std::vector<int> last_use_;       ///< per value: a node; the number of nodes for metrics
  std::vector<std::int64_t> live_;  ///< per node
  std::int64_t peak_ = 0, limit_ = 0;
};

}  // namespace alpa::spmd
