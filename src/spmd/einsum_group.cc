// src/spmd/einsum_group.cc — the operator of einsums that share their left operand
#include "src/spmd/einsum_group.h"

#include "kernels/cpu/kernels.h"
#include "kernels/plan/einsum_group.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

const OpDef& op_of_members(const EinsumGroup& group) {
  return group.epilogue == Epilogue{} ? ops::einsum : ops::einsum_epilogue;
}

/// The factors of a member as factors of the group: those of the shared operand are the first
/// member's, all others are new.
std::vector<int> factors_in_group(const Rule& group, const Rule& member, std::size_t first) {
  std::vector<int> factors(member.factors.size(), -1);
  if (!group.operands[0].empty())
    for (std::size_t d = 0; d < member.operands[0].size(); ++d)
      for (std::size_t i = 0; i < member.operands[0][d].size(); ++i)
        factors[member.operands[0][d][i]] = group.operands[0][d][i];
  for (int& factor : factors)
    if (factor < 0) factor = static_cast<int>(first++);
  return factors;
}

DimFactors renamed(DimFactors dims, const std::vector<int>& factors) {
  for (std::vector<int>& dim : dims)
    for (int& factor : dim) factor = factors[factor];
  return dims;
}

/// Adds the rule of one member.
void append(Rule& rule, const Rule& one, const EinsumGroup& group, std::size_t m) {
  const std::vector<int> factors = factors_in_group(rule, one, rule.factors.size());
  const std::vector<std::size_t> operands = tensors_of_member(group, m, false),
                                 results = tensors_of_member(group, m, true);
  for (std::size_t f = 0; f < factors.size(); ++f)
    if (factors[f] >= static_cast<int>(rule.factors.size()))
      rule.factors.push_back(one.factors[f]);
    else if (one.factors[f].whole)
      rule.factors[factors[f]].whole = true;
  for (std::size_t i = 0; i < operands.size(); ++i)
    rule.operands[operands[i]] = renamed(one.operands[i], factors);
  for (std::size_t i = 0; i < results.size(); ++i) {
    rule.results[results[i]] = renamed(one.results[i], factors);
    if (i >= one.reduced.size()) continue;
    rule.reduced[results[i]] = one.reduced[i];
    for (Reduced& reduced : rule.reduced[results[i]]) reduced.factor = factors[reduced.factor];
  }
  rule.work.push_back(factors);
  rule.flops_per_point = one.flops_per_point;
}

std::size_t num_results(const EinsumGroup& group) {
  return group.members * tensors_of_member(group, 0, true).size();
}

Rule group_rule(const OpQuery& query) {
  const EinsumGroup group = einsum_group_of(query.attributes);
  Rule rule;
  rule.operands.resize(query.operands.size());
  rule.results.resize(num_results(group));
  rule.reduced.resize(rule.results.size());
  for (std::size_t m = 0; m < group.members; ++m) {
    std::vector<TensorType> types;
    for (std::size_t i : tensors_of_member(group, m, false)) types.push_back(query.operands[i]);
    append(rule, rule_of(op_of_members(group), {types, query.attributes}), group, m);
  }
  return rule;
}

std::vector<DType> group_dtypes(const OpQuery& query) {
  const EinsumGroup group = einsum_group_of(query.attributes);
  const TensorType& last = query.operands[group.epilogue.add ? query.operands.size() - 1 : 0];
  return std::vector<DType>(num_results(group), last.dtype);
}

InPlace in_place_in_group(const Attributes& attributes) {
  return einsum_group_of(attributes).epilogue.add ? InPlace::last : InPlace::none;
}

}  // namespace

const OpDef ops::einsum_group = {
    .name = "einsum_group",
    .rule = group_rule,
    .result_dtypes = group_dtypes,
    .work = Work::heavy,
    .in_place_of = in_place_in_group,
    .cpu = &cpu::einsum_group,
};

namespace spmd {

bool is_einsum_group(const Node& node) { return node.op == &ops::einsum_group; }

std::vector<Node> members_of_group(const Node& node) {
  const EinsumGroup group = einsum_group_of(node.attributes);
  std::vector<Node> members(group.members, node);
  for (std::size_t m = 0; m < group.members; ++m) {
    members[m].op = &op_of_members(group);
    members[m].operands.clear(), members[m].results.clear();
    for (std::size_t i : tensors_of_member(group, m, false))
      members[m].operands.push_back(node.operands.at(i));
    for (std::size_t o : tensors_of_member(group, m, true))
      members[m].results.push_back(node.results.at(o));
  }
  return members;
}

}  // namespace spmd
}  // namespace alpa
