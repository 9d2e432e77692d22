// src/ops/elementwise_rule.cc — the index rule of elementwise operators, with NumPy broadcasting
#include "elementwise_rule.h"

#include "alpa/base/error.h"
#include "kernels/elementwise.h"

namespace alpa::ops {
namespace {

void require_one_type(const OpQuery& query) {
  for (std::size_t i = 1; i < query.operands.size(); ++i)
    if (query.operands[i].dtype != query.operands[0].dtype)
      fail("{}: x is {} but {} is {} ({}); cast one of them", query.op->name,
           name_of(query.operands[0].dtype), operand_name(i), name_of(query.operands[i].dtype),
           named_types(query.operands));
}

/// The operand that decides the extent of result dimension `d` (counted from the last): the
/// first that is not 1 there.
std::int64_t extent_from_last(const OpQuery& query, std::size_t d) {
  std::size_t owner = query.operands.size();
  std::int64_t extent = 1;
  for (std::size_t i = 0; i < query.operands.size(); ++i) {
    const Shape& shape = query.operands[i].shape;
    const std::int64_t mine = d < shape.size() ? shape[shape.size() - 1 - d] : 1;
    if (mine == 1) continue;
    if (extent != 1 && mine != extent)
      fail(
          "{}: {} has extent {} but {} has {} in dimension {} from the last ({}); "
          "reshape one of them, or give it extent 1 there",
          query.op->name, operand_name(owner), extent, operand_name(i), mine, d + 1,
          named_types(query.operands));
    if (extent == 1) owner = i;
    extent = mine;
  }
  return extent;
}

}  // namespace

char operand_name(std::size_t i) { return static_cast<char>('x' + i); }

std::string named_types(std::span<const TensorType> operands) {
  std::string text;
  for (std::size_t i = 0; i < operands.size(); ++i)
    text += fmt::format("{}{} {}", i > 0 ? ", " : "", operand_name(i), to_string(operands[i]));
  return text;
}

void require_operands(const OpQuery& query, std::size_t n) {
  require(query.operands.size() == n, "{}: takes {} operands, not {}", query.op->name, n,
          query.operands.size());
}

void require_ids(const OpQuery& query, std::string_view x) {
  require_operands(query, 2);
  if (!is_floating(query.operands[0].dtype) || query.operands[1].dtype != i32)
    fail("{}: {} must have a floating type and ids i32 ({}); cast them", query.op->name, x,
         to_string(query.operands));
}

std::vector<std::uint32_t> movement_linear(const OpQuery& query) {
  if (query.operands[0].dtype == u8) return {};
  return {0b1};
}

double flops_of(int elementwise_code) { return kElementwise[elementwise_code].flops; }

Rule elementwise_rule(const OpQuery& query) {
  require_operands(query, kElementwise[query.op->elementwise].arity);
  std::size_t rank = 0;
  for (const TensorType& type : query.operands) rank = std::max(rank, type.shape.size());
  Rule rule;
  rule.factors.reserve(rank);
  DimFactors result(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t extent = extent_from_last(query, rank - 1 - d);
    if (extent == 1) continue;
    result[d].push_back(static_cast<int>(rule.factors.size()));
    rule.factors.push_back({extent});
  }
  rule.operands.reserve(query.operands.size());
  for (const TensorType& type : query.operands) {
    DimFactors dims(type.shape.size());
    for (std::size_t d = 0; d < dims.size(); ++d)
      if (type.shape[d] != 1) dims[d] = result[d + rank - dims.size()];
    rule.operands.push_back(std::move(dims));
  }
  rule.results.push_back(std::move(result));
  if (query.operands.back().dtype != u8)
    rule.linear = query.op->linear;  // sums of conditions would overflow
  rule.flops_per_point = flops_of(query.op->elementwise);
  return rule;
}

Rule same_type_rule(const OpQuery& query) {
  require_one_type(query);
  return elementwise_rule(query);
}

Rule numeric_rule(const OpQuery& query) {
  for (std::size_t i = 0; i < query.operands.size(); ++i)
    if (query.operands[i].dtype == u8)
      fail("{}: {} is u8, the type of conditions ({}); cast it", query.op->name, operand_name(i),
           named_types(query.operands));
  return same_type_rule(query);
}

Rule floating_rule(const OpQuery& query) {
  for (std::size_t i = 0; i < query.operands.size(); ++i)
    if (!is_floating(query.operands[i].dtype))
      fail("{}: {} is {}, not a floating type ({}); cast it", query.op->name, operand_name(i),
           name_of(query.operands[i].dtype), named_types(query.operands));
  return same_type_rule(query);
}

}  // namespace alpa::ops
