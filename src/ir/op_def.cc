// src/ir/op_def.cc — rules and result types of operators
#include "src/ir/op_def.h"

#include "alpa/base/error.h"
#include "alpa/ir/graph.h"
#include "members.h"
#include "notation.h"

namespace alpa {

Rule rule_of(const OpDef& op, const OpQuery& query) {
  if (op.rule) return op.rule({query.operands, query.attributes, &op});
  return op.members ? rule_of_members(op, query) : rule_of_notation(op, query);
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
