#pragma once
/// Rules as text: "2 3+ | [0][1] -> [0]".
#include <optional>
#include <string>

#include "src/ir/rule.h"

namespace alpa::testing {

/// Factors as size and kind ("+" sum, "^" max, "l" log_sum_exp, "!" whole, "e" even only), then the
/// factors of every dimension.
inline std::string text_of(const Rule& rule) {
  std::string result;
  for (std::size_t i = 0; i < rule.factors.size(); ++i) {
    const Factor& f = rule.factors[i];
    const std::optional<Combiner> combiner = reduction(rule, 0, static_cast<int>(i));
    result += std::to_string(f.size);
    if (combiner) result += "+^l"[static_cast<int>(*combiner)];
    if (f.whole) result += '!';
    if (f.even_only && !f.whole) result += 'e';
    result += ' ';
  }
  const auto tensor = [&](const DimFactors& dims) {
    for (const auto& dim : dims) {
      result += '[';
      for (int f : dim) result += std::to_string(f);
      result += ']';
    }
    result += ' ';
  };
  result += "| ";
  for (const auto& dims : rule.operands) tensor(dims);
  result += "-> ";
  for (const auto& dims : rule.results) tensor(dims);
  return result.substr(0, result.size() - 1);
}

}  // namespace alpa::testing
