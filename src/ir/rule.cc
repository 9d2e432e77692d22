// src/ir/rule.cc — facts derived from an index rule, and checks of a rule
#include "src/ir/rule.h"

#include <algorithm>
#include <numeric>

#include "alpa/base/error.h"

namespace alpa {
namespace {

/// Throws Bug unless each factor is in range and occurs once.
class FactorSet {
 public:
  FactorSet(const Rule& rule, const char* what) : seen_(rule.factors.size(), false), what_(what) {}

  void add(int f) {
    invariant(f >= 0 && f < static_cast<int>(seen_.size()), "rule: {} names factor {} of {}", what_,
              f, seen_.size());
    invariant(!seen_[f], "rule: {} names factor {} twice", what_, f);
    seen_[f] = true;
  }

 private:
  std::vector<bool> seen_;
  const char* what_;
};

void verify_tensor(const Rule& rule, const DimFactors& dims, const char* what) {
  FactorSet factors(rule, what);
  for (const auto& dim : dims)
    for (int f : dim) factors.add(f);
}

void verify_list(const Rule& rule, const std::vector<int>& list, const char* what) {
  FactorSet factors(rule, what);
  for (int f : list) factors.add(f);
}

bool any_has_factor(const std::vector<DimFactors>& tensors, int factor) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const DimFactors& dims) { return has_factor(dims, factor); });
}

void verify_reduced(const Rule& rule) {
  invariant(rule.reduced.empty() || rule.reduced.size() == rule.results.size(),
            "rule: reductions of {} results, not {}", rule.reduced.size(), rule.results.size());
  for (std::size_t i = 0; i < rule.reduced.size(); ++i) {
    FactorSet factors(rule, "a reduction");
    for (const Reduced& reduced : rule.reduced[i]) {
      factors.add(reduced.factor);
      invariant(!rule.factors[reduced.factor].whole, "rule: reduced factor {} is whole",
                reduced.factor);
      invariant(
          any_has_factor(rule.operands, reduced.factor) &&
              !has_factor(rule.results[i], reduced.factor),
          "rule: factor {}, reduced into result {}, must occur in an operand and not in the result",
          reduced.factor, i);
    }
  }
}

void verify_factor(const Rule& rule, int f) {
  invariant(rule.factors[f].size >= 1, "rule: factor {} has size {}", f, rule.factors[f].size);
  const bool in_result = any_has_factor(rule.results, f);
  if (rule.factors[f].whole)
    invariant(in_result || any_has_factor(rule.operands, f), "rule: factor {} occurs nowhere", f);
  else
    invariant(in_result || is_reduced(rule, f), "rule: no result has factor {} or reduces it", f);
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

bool has_factor(const DimFactors& dims, int factor) {
  return std::any_of(dims.begin(), dims.end(), [&](const std::vector<int>& dim) {
    return std::find(dim.begin(), dim.end(), factor) != dim.end();
  });
}

std::optional<Combiner> reduction(const Rule& rule, int result, int factor) {
  if (rule.reduced.empty()) return std::nullopt;
  for (const Reduced& reduced : rule.reduced.at(result))
    if (reduced.factor == factor) return reduced.combiner;
  return std::nullopt;
}

bool is_reduced(const Rule& rule, int factor) {
  for (int i = 0; i < static_cast<int>(rule.reduced.size()); ++i)
    if (reduction(rule, i, factor)) return true;
  return false;
}

int sum_chunks(const Rule& rule) {
  constexpr std::int64_t kMostChunks = 8;
  if (rule.chunked < 0) return 1;
  return static_cast<int>(std::gcd(rule.factors[rule.chunked].size, kMostChunks));
}

double flops(const Rule& rule, const std::vector<std::int64_t>& sizes) {
  double all = 1, points = 0;
  for (std::int64_t size : sizes) all *= static_cast<double>(size);
  for (const std::vector<int>& factors : rule.work) {
    double product = 1;
    for (int factor : factors) product *= static_cast<double>(sizes.at(factor));
    points += product;
  }
  return rule.flops_per_point * (rule.work.empty() ? all : points);
}

double flops(const Rule& rule) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(rule.factors.size());
  for (const Factor& factor : rule.factors) sizes.push_back(factor.size);
  return flops(rule, sizes);
}

void verify(const Rule& rule) {
  for (const auto& dims : rule.operands) verify_tensor(rule, dims, "an operand");
  for (const auto& dims : rule.results) verify_tensor(rule, dims, "a result");
  verify_reduced(rule);
  for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f) verify_factor(rule, f);
  invariant(rule.reads.empty() || rule.reads.size() == rule.operands.size(),
            "rule: reads of {} operands, not {}", rule.reads.size(), rule.operands.size());
  for (const auto& read : rule.reads)
    if (read) verify_list(rule, *read, "a read");
  for (const auto& factors : rule.work) verify_list(rule, factors, "the work");
  for (std::uint32_t set : rule.linear)
    invariant(rule.operands.empty() ? set == 0 : set != 0 && set >> rule.operands.size() == 0,
              "rule: linear set {:#b} with {} operands", set, rule.operands.size());
}

}  // namespace alpa
