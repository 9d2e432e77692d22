// src/spmd/join_norms.cc — the squared norms of many tensors from one node
#include <fmt/core.h>

#include <limits>

#include "alpa/ops/all_ops.h"
#include "join_nodes.h"

namespace alpa {
namespace {

Node joined(const std::vector<const Node*>& members) {
  Node result = *members.front();
  result.operands.clear(), result.results.clear();
  for (const Node* member : members) {
    result.operands.push_back(member->operands[0]);
    result.results.push_back(member->results[0]);
  }
  result.name += fmt::format("+{}", members.size() - 1);
  return result;
}

}  // namespace

SpmdProgram join_norms(const SpmdProgram& program) {
  const auto kind = [](const Node& node) -> std::optional<std::string> {
    if (node.op != &ops::squared_norms) return std::nullopt;
    return fmt::format("{} {}", to_string(node.attributes), static_cast<int>(node.region));
  };
  const auto size = [](const Node&) { return std::int64_t{1}; };
  return join_nodes(program, {kind, size, std::numeric_limits<std::int64_t>::max(), joined});
}

}  // namespace alpa
