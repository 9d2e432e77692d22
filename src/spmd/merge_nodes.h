#pragma once
/// Shared by passes that merge several nodes: where the merged node goes, and how much
/// that may add to peak memory.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/spmd/program.h"

namespace alpa::spmd {

struct MergeRules {
  /// Nodes with the same key may be merged; nullopt: the node is left alone.
  std::function<std::optional<std::string>(const Node&)> kind;
  /// A node's share of a merged node's size, and the limit of the sum.
  std::function<std::int64_t(const Node&)> size;
  std::int64_t limit = 0;
  /// The node that replaces two or more members, given in program order.
  std::function<Node(const std::vector<const Node*>&)> merged;
  /// Most bytes that merging may add to the peak of live bytes.
  std::int64_t slack_bytes = 0;
};

/// `program` with nodes merged. A merged node takes the place of its last member, or, if a result
/// is read before that, of its first members. Neither may raise the peak of live bytes by more than
/// the slack, judged by the sizes of values.
SpmdProgram merge_nodes(const SpmdProgram& program, const MergeRules& rules);

}  // namespace alpa::spmd
