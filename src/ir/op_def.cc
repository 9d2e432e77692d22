// src/ir/op_def.cc — rules and result types of operators
#include "src/ir/op_def.h"

#include "alpa/base/error.h"
#include "alpa/ir/graph.h"
#include "members.h"
#include "notation.h"

namespace alpa {
namespace {

Rule bare_rule(const OpDef& op, const OpQuery& query) {
  if (op.rule) return op.rule({query.operands, query.attributes, &op});
  return op.members ? rule_of_members(op, query) : rule_of_notation(op, query);
}

/// The factor that `ChunkedSum` names; -1 if it is not summed into a result.
int chunked_factor(const Rule& rule, ChunkedSum chunked) {
  if (chunked == ChunkedSum::contraction)
    return rule.reduced.at(0).empty() ? -1 : rule.reduced[0].front().factor;
  const DimFactors& first = rule.operands.at(0);
  if (first.empty() || first[0].empty()) return -1;
  const int factor = first[0].front();
  for (int i = 0; i < static_cast<int>(rule.results.size()); ++i)
    if (reduction(rule, i, factor) == Combiner::sum) return factor;
  return -1;
}

}  // namespace

Rule rule_of(const OpDef& op, const OpQuery& query) {
  Rule rule = bare_rule(op, query);
  if (op.chunked != ChunkedSum::none) rule.chunked = chunked_factor(rule, op.chunked);
  return rule;
}

InPlace in_place(const Node& node) {
  return node.op->in_place_of ? node.op->in_place_of(node.attributes) : node.op->in_place;
}

std::vector<TensorType> result_types(const OpDef& op, const OpQuery& query) {
  const Rule rule = rule_of(op, query);
  std::vector<DType> dtypes;
  if (op.result_dtypes)
    dtypes = op.result_dtypes({query.operands, query.attributes, &op});
  else
    dtypes = {query.operands[0].dtype};
  invariant(dtypes.size() == rule.results.size(), "{}: {} element types for {} results", op.name,
            dtypes.size(), rule.results.size());
  std::vector<TensorType> types;
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    types.push_back({dtypes[i], shape_of(rule, rule.results[i])});
    check_type(types[i], fmt::format("{}: the result", op.name));
  }
  return types;
}

std::string to_string(std::span<const TensorType> types) {
  std::string text;
  for (const TensorType& type : types) text += (text.empty() ? "" : ", ") + to_string(type);
  return text;
}

}  // namespace alpa
