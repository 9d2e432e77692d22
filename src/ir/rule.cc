#include "alpa/ir/rule.h"

#include "alpa/base/error.h"

namespace alpa {
namespace {

void verify_tensor(const Rule& rule, const DimFactors& dims, const char* what) {
  std::vector<bool> seen(rule.factors.size(), false);
  for (const auto& dim : dims)
    for (int f : dim) {
      invariant(f >= 0 && f < static_cast<int>(seen.size()), "rule: {} names factor {} of {}", what, f,
                seen.size());
      invariant(!seen[f], "rule: {} uses factor {} twice", what, f);
      seen[f] = true;
    }
}

bool occurs(const std::vector<DimFactors>& tensors, int factor) {
  for (const auto& dims : tensors)
    for (const auto& dim : dims)
      for (int f : dim)
        if (f == factor) return true;
  return false;
}

void verify_kind(const Rule& rule, int f) {
  const bool in_operand = occurs(rule.operands, f), in_result = occurs(rule.results, f);
  switch (rule.factors[f].kind) {
    case FactorKind::pass: return invariant(in_result, "rule: pass factor {} occurs in no result", f);
    case FactorKind::whole: return invariant(in_operand || in_result, "rule: factor {} occurs nowhere", f);
    case FactorKind::sum:
    case FactorKind::max:
      invariant(in_operand && !in_result, "rule: reduced factor {} must occur in operands alone", f);
  }
}

}  // namespace

Shape shape_of(const Rule& rule, const DimFactors& dims) {
  Shape shape;
  shape.reserve(dims.size());
  Shape sizes;
  for (const auto& dim : dims) {
    sizes.clear();
    for (int f : dim) sizes.push_back(rule.factors[f].size);
    shape.push_back(num_elements(sizes));
  }
  return shape;
}

double flops(const Rule& rule) {
  double points = 1;
  for (const auto& factor : rule.factors) points *= static_cast<double>(factor.size);
  return rule.flops_per_point * points;
}

void verify(const Rule& rule) {
  for (const auto& dims : rule.operands) verify_tensor(rule, dims, "an operand");
  for (const auto& dims : rule.results) verify_tensor(rule, dims, "a result");
  for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f) {
    invariant(rule.factors[f].size >= 1, "rule: factor {} has size {}", f, rule.factors[f].size);
    verify_kind(rule, f);
  }
  for (std::uint32_t set : rule.linear)
    invariant(rule.operands.empty() ? set == 0 : set != 0 && set >> rule.operands.size() == 0,
              "rule: linear set {:#b} with {} operands", set, rule.operands.size());
}

}  // namespace alpa
