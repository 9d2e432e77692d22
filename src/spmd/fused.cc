// src/spmd/fused.cc — the operator of several elementwise formulas in one pass
// over tensors of one shape
#include "kernels/cpu/kernels.h"
#include "src/ir/op_def.h"
#include "src/ir/rule.h"
#include "src/spmd/program.h"
#include "src/tensor/elementwise_program.h"

namespace alpa {
namespace {

/// Words separated by single blanks.
std::vector<DType> parse_dtypes(const std::string& text) {
  std::vector<DType> dtypes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    dtypes.push_back(parse_dtype(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return dtypes;
}

Rule fused_rule(const OpQuery& query) {
  const Shape& shape = query.attributes.integers("shape");
  Rule rule;
  DimFactors result(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    result[d] = {static_cast<int>(d)};
    rule.factors.push_back({shape[d]});
  }
  const ElementwiseProgram program =
      parse_elementwise_program(query.attributes, static_cast<int>(query.operands.size()));
  std::size_t mapped = 0;
  for (const TensorType& type : query.operands) {
    DimFactors dims(type.shape.size());
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const std::size_t to =
          program.dims.empty() ? shape.size() - dims.size() + d : program.dims.at(mapped++);
      if (type.shape[d] == shape.at(to) && shape[to] != 1) dims[d] = result[to];
    }
    rule.operands.push_back(std::move(dims));
  }
  rule.results.assign(program.outputs.size(), result);
  for (const ElementwiseStep& step : program.steps)
    rule.flops_per_point += kElementwise[step.op].flops;
  return rule;
}

}  // namespace

const OpDef ops::fused = {
    .name = "fused",
    .rule = fused_rule,
    .result_dtypes =
        [](const OpQuery& query) { return parse_dtypes(query.attributes.string("dtypes")); },
    .elementwise_program = true,
    .in_place = InPlace::any,
    .cpu = &cpu::fused,
};

}  // namespace alpa
