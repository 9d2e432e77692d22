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

/// The same of results.
template <class Items>
auto results_of(const Members& members, std::size_t count, std::size_t m, const Items& items) {
  const auto first = items.begin() + static_cast<std::ptrdiff_t>(m * members.each);
  std::vector<typename Items::value_type> own(first,
                                              first + static_cast<std::ptrdiff_t>(members.each));
  if (members.copies) own.push_back(items[count * members.each + m]);
  return own;
}

DimFactors numbered_from(DimFactors dims, int first) {
  for (std::vector<int>& factors : dims)
    for (int& factor : factors) factor += first;
  return dims;
}

/// Indices of a member's tensors in the whole node.
struct Places {
  std::vector<int> operands, results;
};

/// Adds the rule of one member.
void append(Rule& rule, const Rule& member, const Places& places) {
  const int first = static_cast<int>(rule.factors.size());
  for (std::size_t i = 0; i < places.operands.size(); ++i)
    rule.operands[places.operands[i]] = numbered_from(member.operands[i], first);
  for (std::size_t i = 0; i < places.results.size(); ++i)
    rule.results[places.results[i]] = numbered_from(member.results[i], first);
  for (std::size_t i = 0; i < member.reduced.size(); ++i) {
    rule.reduced.resize(rule.results.size());
    std::vector<Reduced>& reduced = rule.reduced[places.results[i]];
    reduced = member.reduced[i];
    for (Reduced& one : reduced) one.factor += first;
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
  const Members& members = *op.members;
  std::vector<int> operands(query.operands.size()),
      results(count * (members.each + (members.copies ? 1 : 0)));
  std::iota(operands.begin(), operands.end(), 0);
  std::iota(results.begin(), results.end(), 0);
  Rule rule;
  rule.operands.resize(operands.size());
  rule.results.resize(results.size());
  rule.flops_per_point = op.flops_per_point;
  for (std::size_t m = 0; m < count; ++m) {
    const std::vector<TensorType> types = operands_of(members, count, m, query.operands);
    append(rule, rule_of_notation(op, {types, query.attributes}),
           {operands_of(members, count, m, operands), results_of(members, count, m, results)});
  }
  return rule;
}

std::size_t num_states(const Node& node) {
  return num_members(*node.op, node.operands.size()) * node.op->members->each;
}

std::vector<Node> members_of(const Node& node) {
  const Members& members = *node.op->members;
  std::vector<Node> nodes(num_members(*node.op, node.operands.size()), node);
  for (std::size_t m = 0; m < nodes.size(); ++m) {
    nodes[m].results = results_of(members, nodes.size(), m, node.results);
    nodes[m].operands = operands_of(members, nodes.size(), m, node.operands);
  }
  return nodes;
}

Node joined(const std::vector<const Node*>& nodes) {
  Node result = *nodes.front();
  const auto shared = static_cast<std::ptrdiff_t>(result.op->members->shared);
  result.operands.clear(), result.results.clear();
  std::vector<int> gradients, copies;
  const auto append_range = [](std::vector<int>& to, auto first, auto last) {
    to.insert(to.end(), first, last);
  };
  for (const Node* node : nodes) {
    const auto states = static_cast<std::ptrdiff_t>(num_states(*node));
    append_range(result.operands, node->operands.begin(), node->operands.begin() + states);
    append_range(gradients, node->operands.begin() + states, node->operands.end() - shared);
    append_range(result.results, node->results.begin(), node->results.begin() + states);
    append_range(copies, node->results.begin() + states, node->results.end());
  }
  append_range(result.operands, gradients.begin(), gradients.end());
  append_range(result.results, copies.begin(), copies.end());
  const std::vector<int>& operands = nodes.back()->operands;
  result.operands.insert(result.operands.end(), operands.end() - shared, operands.end());
  result.name += fmt::format("+{}", nodes.size() - 1);
  return result;
}

}  // namespace alpa
