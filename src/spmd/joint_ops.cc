// src/spmd/joint_ops.cc — joint operators, which replace several nodes of a single operator
#include "joint_ops.h"

#include <fmt/core.h>

#include "alpa/base/error.h"
#include "alpa/spmd/program.h"
#include "kernels/cpu/kernels.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

/// The number of members of a node of operator `op` with this many operands.
std::size_t num_members(const OpDef& op, std::size_t operands) {
  const Members& members = *op.members;
  const std::size_t own = members.each + (members.gradients ? 1 : 0);
  invariant(operands > members.shared && (operands - members.shared) % own == 0, "{}: {} operands",
            op.name, operands);
  return (operands - members.shared) / own;
}

/// A factor per dimension of every parameter, which its states and its gradient share.
Rule update_rule(const OpQuery& query) {
  const Members& members = *query.op->members;
  Rule rule;
  std::vector<DimFactors> dims(num_members(*query.op, query.operands.size()));
  for (std::size_t m = 0; m < dims.size(); ++m)
    for (std::int64_t extent : query.operands[m * members.each].shape) {
      dims[m].push_back({static_cast<int>(rule.factors.size())});
      rule.factors.push_back({extent});
    }
  for (const DimFactors& member : dims)
    rule.results.insert(rule.results.end(), members.each, member);
  rule.operands = rule.results;
  rule.operands.insert(rule.operands.end(), dims.begin(), dims.end());
  rule.operands.resize(rule.operands.size() + members.shared);
  return rule;
}

/// The states keep their types.
std::vector<DType> update_dtypes(const OpQuery& query) {
  const std::size_t states =
      num_members(*query.op, query.operands.size()) * query.op->members->each;
  std::vector<DType> dtypes;
  for (const TensorType& type : query.operands.first(states)) dtypes.push_back(type.dtype);
  return dtypes;
}

/// Every dimension of every operand is a factor that is summed into the operand's norm.
Rule norms_rule(const OpQuery& query) {
  Rule rule;
  for (const TensorType& type : query.operands) {
    DimFactors dims;
    std::vector<Reduced> reduced;
    for (std::int64_t extent : type.shape) {
      reduced.push_back({static_cast<int>(rule.factors.size())});
      dims.push_back({reduced.back().factor});
      rule.factors.push_back({extent});
    }
    rule.operands.push_back(std::move(dims));
    rule.results.emplace_back();
    rule.reduced.push_back(std::move(reduced));
  }
  return rule;
}

std::vector<DType> norms_dtypes(const OpQuery& query) {
  return std::vector<DType>(query.operands.size(), query.attributes.dtype("dtype"));
}

}  // namespace

const OpDef ops::squared_norms = {
    .name = "squared_norms",
    .rule = norms_rule,
    .result_dtypes = norms_dtypes,
    .members = Members{.single = &ops::squared_norms},
    .cpu = &cpu::squared_norms,
};

const OpDef ops::adam_updates = {
    .name = "adam_updates",
    .rule = update_rule,
    .result_dtypes = update_dtypes,
    .in_place = InPlace::paired,
    .members = Members{.single = &ops::adam_update, .each = 3, .gradients = true, .shared = 2},
    .cpu = &cpu::adam_update,
};

const OpDef ops::sgd_updates = {
    .name = "sgd_updates",
    .rule = update_rule,
    .result_dtypes = update_dtypes,
    .in_place = InPlace::paired,
    .members = Members{.single = &ops::sgd_update, .each = 2, .gradients = true, .shared = 1},
    .cpu = &cpu::sgd_update,
};

const OpDef* joint_of(const OpDef& single) {
  for (const OpDef* op : partitioned_ops())
    if (op->members && op->members->single == &single) return op;
  return nullptr;
}

Node joined(const std::vector<const Node*>& nodes) {
  Node result = *nodes.front();
  result.op = joint_of(*result.op);
  const Members& members = *result.op->members;
  const auto each = static_cast<std::ptrdiff_t>(members.each);
  std::vector<int> gradients;
  result.operands.clear(), result.results.clear();
  for (const Node* node : nodes) {
    const auto first = node->operands.begin();
    result.operands.insert(result.operands.end(), first, first + each);
    if (members.gradients) gradients.push_back(first[each]);
    result.results.insert(result.results.end(), node->results.begin(), node->results.end());
  }
  const std::vector<int>& last = nodes.back()->operands;
  result.operands.insert(result.operands.end(), gradients.begin(), gradients.end());
  result.operands.insert(result.operands.end(),
                         last.end() - static_cast<std::ptrdiff_t>(members.shared), last.end());
  result.name += fmt::format("+{}", nodes.size() - 1);
  return result;
}

std::vector<Node> members_of(const Node& node) {
  const Members& members = *node.op->members;
  std::vector<Node> nodes(num_members(*node.op, node.operands.size()), node);
  for (std::size_t m = 0; m < nodes.size(); ++m) {
    const auto own = [&](const std::vector<int>& values) {
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(m * members.each);
      return std::vector<int>(first, first + static_cast<std::ptrdiff_t>(members.each));
    };
    nodes[m].op = members.single;
    nodes[m].results = own(node.results);
    nodes[m].operands = own(node.operands);
    if (members.gradients)
      nodes[m].operands.push_back(node.operands[nodes.size() * members.each + m]);
    nodes[m].operands.insert(nodes[m].operands.end(),
                             node.operands.end() - static_cast<std::ptrdiff_t>(members.shared),
                             node.operands.end());
  }
  return nodes;
}

}  // namespace alpa
