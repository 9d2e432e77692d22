// src/ir/members.cc — rules, members and unions of nodes of variadic operators
#include "members.h"

#include <fmt/core.h>

#include <numeric>

#include "notation.h"

namespace alpa {
namespace {

/// The items of member `m` of `count`, in the order of a node with one member.
template <class Items>
auto operands_of(const Members& members, std::size_t count, std::size_t m, const Items& items) {
  std::vector<typename Items::value_type> own;
  const auto add = [&](std::size_t first, std::size_t n) {
    for (std::size_t i = first; i < first + n; ++i) own.push_back(items[i]);
  };
  add(m * members.each, members.each);
  if (members.gradients) add(count * members.each + m, 1);
  add(items.size() - members.shared, members.shared);
  return own;
}

DimFactors numbered_from(DimFactors dims, int first) {
  for (std::vector<int>& factors : dims)
    for (int& factor : factors) factor += first;
  return dims;
}

/// Adds the rule of one member; `places` are those of its operands in the whole node.
void append(Rule& rule, const Rule& member, const std::vector<int>& places) {
  const int first = static_cast<int>(rule.factors.size());
  for (std::size_t i = 0; i < places.size(); ++i)
    rule.operands[places[i]] = numbered_from(member.operands[i], first);
  for (const DimFactors& dims : member.results) rule.results.push_back(numbered_from(dims, first));
  for (std::vector<Reduced> reduced : member.reduced) {
    for (Reduced& one : reduced) one.factor += first;
    rule.reduced.push_back(std::move(reduced));
  }
  rule.factors.insert(rule.factors.end(), member.factors.begin(), member.factors.end());
  std::vector<int>& work = rule.work.emplace_back();
  for (int f = first; f < static_cast<int>(rule.factors.size()); ++f) work.push_back(f);
}

}  // namespace

std::size_t num_members(const OpDef& op, std::size_t operands) {
  const std::size_t shared = op.members->shared,
                    own = op.members->each + (op.members->gradients ? 1 : 0);
  return operands <= shared || (operands - shared) % own != 0 ? 0 : (operands - shared) / own;
}

Rule rule_of_members(const OpDef& op, const OpQuery& query) {
  const std::size_t count = num_members(op, query.operands.size());
  if (count <= 1) return rule_of_notation(op, query);
  std::vector<int> places(query.operands.size());
  std::iota(places.begin(), places.end(), 0);
  Rule rule;
  rule.operands.resize(places.size());
  rule.flops_per_point = op.flops_per_point;
  for (std::size_t m = 0; m < count; ++m) {
    const std::vector<TensorType> types = operands_of(*op.members, count, m, query.operands);
    append(rule, rule_of_notation(op, {types, query.attributes}),
           operands_of(*op.members, count, m, places));
  }
  return rule;
}

std::vector<Node> members_of(const Node& node) {
  const Members& members = *node.op->members;
  std::vector<Node> nodes(num_members(*node.op, node.operands.size()), node);
  for (std::size_t m = 0; m < nodes.size(); ++m) {
    const auto first = node.results.begin() + static_cast<std::ptrdiff_t>(m * members.each);
    nodes[m].results = {first, first + static_cast<std::ptrdiff_t>(members.each)};
    nodes[m].operands = operands_of(members, nodes.size(), m, node.operands);
  }
  return nodes;
}

Node joined(const std::vector<const Node*>& nodes) {
  Node result = *nodes.front();
  const auto shared = static_cast<std::ptrdiff_t>(result.op->members->shared);
  result.operands.clear(), result.results.clear();
  std::vector<int> last;  // gradients, then what all share
  for (const Node* node : nodes) {
    const auto states = node->operands.begin() + static_cast<std::ptrdiff_t>(node->results.size());
    result.operands.insert(result.operands.end(), node->operands.begin(), states);
    last.insert(last.end(), states, node->operands.end() - shared);
    result.results.insert(result.results.end(), node->results.begin(), node->results.end());
  }
  result.operands.insert(result.operands.end(), last.begin(), last.end());
  const std::vector<int>& operands = nodes.back()->operands;
  result.operands.insert(result.operands.end(), operands.end() - shared, operands.end());
  result.name += fmt::format("+{}", nodes.size() - 1);
  return result;
}

}  // namespace alpa
