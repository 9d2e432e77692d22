#pragma once
/// What passes that put several nodes into one share: where a joint node may stand, and what that costs in
/// memory.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "alpa/spmd/program.h"

namespace alpa {

struct Joining {
  /// Nodes of one kind may become one; nothing: the node stays alone.
  std::function<std::optional<std::string>(const Node&)> kind;
  /// What a joint node takes of node, and at most in all.
  std::function<std::int64_t(const Node&)> size;
  std::int64_t limit = 0;
  /// The joint node of two or more, in program order.
  std::function<Node(const std::vector<const Node*>&)> joined;
  /// What joining may add to the peak of what lives at once.
  std::int64_t slack_bytes = 0;
};

/// `program` with nodes joined. A joint node stands where its last member stood, or, if a result is read
/// before, where its first members stood. Neither may raise the peak of what lives at once by more
/// than the slack, judged by the sizes of values.
SpmdProgram join_nodes(const SpmdProgram& program, const Joining& joining);

}  // namespace alpa
