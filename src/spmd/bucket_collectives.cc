// src/spmd/bucket_collectives.cc — moves reductions to their earliest place
// and merges small collectives
#include <fmt/core.h>

#include "merge_nodes.h"
#include "rewrite.h"
#include "src/ir/op_def.h"

namespace alpa::spmd {
namespace {

template <class T>
void append_to(std::vector<T>& all, const std::vector<T>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

Node merged(const std::vector<const Node*>& members) {
  Node result = *members.front();
  std::vector<std::int64_t> dims;
  result.operands.clear(), result.results.clear();
  for (const Node* member : members) {
    append_to(result.operands, member->operands);
    append_to(result.results, member->results);
    if (member->attributes.contains("dims")) append_to(dims, member->attributes.integers("dims"));
  }
  if (!dims.empty()) result.attributes.set("dims", std::move(dims));
  result.name += fmt::format("+{}", members.size() - 1);
  return result;
}

/// Properties that the members of one bucket share: operator, axes, combiner of
/// reductions, element type, region, and whether they are made once for all micro-batches.
std::string kind_of(const SpmdProgram& program, const Node& node) {
  const int value = node.operands[0];
  const std::vector<std::int64_t>& axes = node.attributes.integers("axes");
  return fmt::format("{} {} {} {} {} {}", node.op->name, alpa::to_string(Shape(axes)),
                     static_cast<int>(program.specs[value].axes[axes[0]].combiner),
                     name_of(program.graph.type(value).dtype), static_cast<int>(node.region),
                     node.attributes.contains(kOnce));
}

}  // namespace

SpmdProgram bucket_collectives(const SpmdProgram& program, std::int64_t bucket_bytes,
                               std::int64_t slack_bytes) {
  const SpmdProgram early = delay_readers(hoist_reductions(program), slack_bytes);
  const auto bytes = [&](const Node& node) { return payload_bytes(early, node); };
  const auto kind = [&](const Node& node) -> std::optional<std::string> {
    const bool small =
        is_collective(node) && !pairwise(*node.op->reshard) && bytes(node) < bucket_bytes;
    return small ? std::optional(kind_of(early, node)) : std::nullopt;
  };
  return merge_nodes(early, {kind, bytes, bucket_bytes, merged, slack_bytes});
}

}  // namespace alpa::spmd
