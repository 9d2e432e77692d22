// src/spmd/einsum_epilogue.cc — the operator of an einsum fused with a bias, activation, gradient
// or addend
#include <algorithm>

#include "alpa/base/error.h"
#include "kernels/cpu/kernels.h"
#include "kernels/plan/epilogue.h"
#include "src/ops/all_ops.h"
#include "src/spmd/program.h"

namespace alpa {
namespace {

constexpr std::int64_t kBitsPerByte = 8;

/// The last `count` dimensions.
DimFactors last_dims(const DimFactors& dims, std::size_t count) {
  invariant(count <= dims.size(), "einsum_epilogue: a bias of {} dimensions on a result of {}",
            count, dims.size());
  return {dims.end() - static_cast<std::ptrdiff_t>(count), dims.end()};
}

/// Divides the factor of the result's last dimension into bytes of bits (which may be split,
/// evenly) and the bits of one. Returns the dimensions of a tensor of such bytes.
DimFactors divide_into_bytes(Rule& rule) {
  const int bytes = rule.results[0].back().at(0), bits = static_cast<int>(rule.factors.size());
  invariant(rule.factors[bytes].size % kBitsPerByte == 0, "einsum_epilogue: rows of {} bits",
            rule.factors[bytes].size);
  rule.factors[bytes].size /= kBitsPerByte;
  rule.factors[bytes].even_only = true;
  rule.factors.push_back({kBitsPerByte, true});
  DimFactors kept = rule.results[0];
  for (auto* tensors : {&rule.operands, &rule.results})
    for (DimFactors& dims : *tensors)
      for (std::vector<int>& dim : dims)
        if (dim == std::vector<int>{bytes}) dim.push_back(bits);
  return kept;
}

/// Dimensions of operand `operand` that the result keeps.
DimFactors kept_dims(const Rule& rule, int operand) {
  DimFactors dims = rule.operands.at(operand);
  std::erase_if(dims, [&](const std::vector<int>& dim) { return is_reduced(rule, dim.at(0)); });
  return dims;
}

/// A function of a sum is not the sum of the function's values: neither partial
/// operands nor partial results.
void forbid_partial(Rule& rule) {
  rule.linear.clear();
  for (const Reduced& reduced : rule.reduced[0]) rule.factors[reduced.factor].whole = true;
  rule.reduced.clear();
}

Rule epilogue_rule(const OpQuery& query) {
  const Epilogue epilogue = parse_epilogue(query.attributes.string("epilogue"));
  const std::size_t operands =
      2 + static_cast<std::size_t>(epilogue.bias || epilogue.gradient) + epilogue.add;
  invariant(query.operands.size() == operands, "einsum_epilogue \"{}\": {} operands",
            to_string(epilogue), query.operands.size());
  Rule rule = rule_of(ops::einsum, {query.operands.first(2), query.attributes});
  if (epilogue.sums_of >= 0) {
    rule.results.push_back(kept_dims(rule, epilogue.sums_of));
    rule.reduced.push_back(rule.reduced[0]);
    rule.linear = {1U << epilogue.sums_of};
  }
  if (epilogue.bias || epilogue.function != Epilogue::Function::none)
    if (!epilogue.gradient) forbid_partial(rule);
  if (epilogue.bias)
    rule.operands.push_back(last_dims(rule.results[0], query.operands[2].shape.size()));
  if (epilogue.add) {
    rule.addend = static_cast<int>(rule.operands.size());
    rule.operands.push_back(rule.results[0]);
  }
  if (!epilogue.has_kept()) return rule;
  const bool bits = epilogue.function == Epilogue::Function::relu;
  const DimFactors kept = bits ? divide_into_bytes(rule) : rule.results[0];
  (epilogue.keep ? rule.results : rule.operands).push_back(kept);
  return rule;
}

std::vector<DType> epilogue_dtypes(const OpQuery& query) {
  const Epilogue epilogue = parse_epilogue(query.attributes.string("epilogue"));
  const DType dtype = query.operands[epilogue.add ? query.operands.size() - 1 : 0].dtype;
  if (epilogue.keep) return {dtype, epilogue.function == Epilogue::Function::relu ? u8 : dtype};
  if (epilogue.sums_of >= 0) return {dtype, dtype};
  return {dtype};
}

InPlace in_place_of(const Attributes& attributes) {
  return parse_epilogue(attributes.string("epilogue")).add ? InPlace::last : InPlace::none;
}

}  // namespace

const OpDef ops::einsum_epilogue = {
    .name = "einsum_epilogue",
    .rule = epilogue_rule,
    .result_dtypes = epilogue_dtypes,
    .work = Work::heavy,
    .in_place_of = in_place_of,
    .cpu = &cpu::einsum_epilogue,
};

}  // namespace alpa
