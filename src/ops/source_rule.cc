// src/ops/source_rule.cc — the index rule of operators without operands
#include "source_rule.h"

#include "alpa/base/error.h"
#include "elementwise_rule.h"

namespace alpa::ops {

Rule source_rule(const OpQuery& query) {
  require_operands(query, 0);
  Rule rule;
  DimFactors dims;
  for (std::int64_t extent : query.attributes.integers("shape")) {
    if (extent < 1)
      fail("{}: extents must be at least 1 (shape {})", query.op->name,
           to_string(query.attributes.integers("shape")));
    dims.push_back({static_cast<int>(rule.factors.size())});
    rule.factors.push_back({extent});
  }
  rule.results.push_back(std::move(dims));
  rule.flops_per_point = query.op->flops_per_point;
  return rule;
}

std::vector<DType> source_dtypes(const OpQuery& query) { return {query.attributes.dtype("dtype")}; }

}  // namespace alpa::ops
