// src/spmd/joint_ops.cc — operators that do for many tensors what others do for one
#include "joint_ops.h"
#include "alpa/base/error.h"
#include "alpa/ops/all_ops.h"
#include "alpa/spmd/program.h"
#include "kernels/cpu/kernels.h"

namespace alpa {
namespace {

std::span<const TensorType> tensors_of(const OpQuery& query, const JointUpdate& joint) {
  const std::size_t operands = query.operands.size(), scalars = joint.scalars, each = joint.states + 1;
  invariant(operands > scalars && (operands - scalars) % each == 0, "{}: {} operands", query.op->name,
            operands);
  return query.operands.first(operands - scalars);
}

/// A factor per dimension of every parameter, which its states and its gradient share.
Rule update_rule(const OpQuery& query) {
  const JointUpdate joint = *joint_update(*query.op);
  const std::size_t members = tensors_of(query, joint).size() / (joint.states + 1);
  Rule rule;
  std::vector<DimFactors> dims(members);
  for (std::size_t m = 0; m < members; ++m)
    for (std::int64_t extent : query.operands[m * joint.states].shape) {
      dims[m].push_back({static_cast<int>(rule.factors.size())});
      rule.factors.push_back({extent});
    }
  for (const DimFactors& member : dims) rule.results.insert(rule.results.end(), joint.states, member);
  rule.operands = rule.results;
  rule.operands.insert(rule.operands.end(), dims.begin(), dims.end());
  rule.operands.resize(rule.operands.size() + joint.scalars);
  return rule;
}

/// The states keep their types.
std::vector<DType> update_dtypes(const OpQuery& query) {
  const JointUpdate joint = *joint_update(*query.op);
  const std::size_t states = tensors_of(query, joint).size() / (joint.states + 1) * joint.states;
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
    .cpu = &cpu::squared_norms,
};

const OpDef ops::adam_updates = {
    .name = "adam_updates",
    .rule = update_rule,
    .result_dtypes = update_dtypes,
    .in_place = true,
    .cpu = &cpu::adam_update,
};

const OpDef ops::sgd_updates = {
    .name = "sgd_updates",
    .rule = update_rule,
    .result_dtypes = update_dtypes,
    .in_place = true,
    .cpu = &cpu::sgd_update,
};

std::optional<JointUpdate> joint_update(const OpDef& op) {
  if (&op == &ops::adam_updates) return JointUpdate{&ops::adam_update, &ops::adam_updates, 3, 2};
  if (&op == &ops::sgd_updates) return JointUpdate{&ops::sgd_update, &ops::sgd_updates, 2, 1};
  return std::nullopt;
}

std::optional<JointUpdate> joint_update_of(const OpDef& single) {
  for (const OpDef* op : {&ops::adam_updates, &ops::sgd_updates})
    if (const auto joint = joint_update(*op); joint->single == &single) return joint;
  return std::nullopt;
}

std::vector<Node> members_of(const Node& node) {
  const JointUpdate joint = *joint_update(*node.op);
  const std::size_t members = node.results.size() / joint.states;
  std::vector<Node> nodes(members, node);
  for (std::size_t m = 0; m < members; ++m) {
    const auto states = [&](const std::vector<int>& values) {
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(m * joint.states);
      return std::vector<int>(first, first + static_cast<std::ptrdiff_t>(joint.states));
    };
    nodes[m].op = joint.single;
    nodes[m].results = states(node.results);
    nodes[m].operands = states(node.operands);
    nodes[m].operands.push_back(node.operands[members * joint.states + m]);
    nodes[m].operands.insert(nodes[m].operands.end(),
                             node.operands.end() - static_cast<std::ptrdiff_t>(joint.scalars),
                             node.operands.end());
  }
  return nodes;
}

}  // namespace alpa
