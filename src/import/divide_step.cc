// src/import/divide_step.cc — which operations of a whole step are forward, backward and apply
#include <algorithm>

#include "src/import/flat.h"

namespace alpa::stablehlo {
namespace {

using Marks = std::vector<bool>;  // of operations

bool is_product(const FlatOperation& operation) {
  return operation.kind == "stablehlo.dot_general" || operation.kind == "stablehlo.convolution";
}

/// Operations that `value` needs.
Marks needed_by(const FlatFunction& flat, int value) {
  Marks needed(flat.operations.size());
  std::vector<int> open = {value};
  while (!open.empty()) {
    const int made = flat.values[static_cast<std::size_t>(open.back())].producer;
    open.pop_back();
    if (made < 0 || needed[static_cast<std::size_t>(made)]) continue;
    needed[static_cast<std::size_t>(made)] = true;
    const FlatOperation& operation = flat.operations[static_cast<std::size_t>(made)];
    open.insert(open.end(), operation.operands.begin(), operation.operands.end());
  }
  return needed;
}

int products_in(const FlatFunction& flat, const Marks& marks) {
  int count = 0;
  for (std::size_t i = 0; i < marks.size(); ++i)
    count += marks[i] && is_product(flat.operations[i]) ? 1 : 0;
  return count;
}

/// What the numbers with the fewest products need.
Marks forward_of(const FlatFunction& flat, std::size_t state) {
  std::vector<Marks> metrics;
  for (std::size_t i = state; i < flat.results.size(); ++i)
    if (flat.values[static_cast<std::size_t>(flat.results[i])].type.shape.empty())
      metrics.push_back(needed_by(flat, flat.results[i]));
  std::vector<int> products;
  for (const Marks& needed : metrics) products.push_back(products_in(flat, needed));
  Marks forward(flat.operations.size());
  for (std::size_t m = 0; m < metrics.size(); ++m)
    if (products[m] == *std::ranges::min_element(products))
      for (std::size_t i = 0; i < forward.size(); ++i) forward[i] = forward[i] || metrics[m][i];
  return forward;
}

/// What follows from state that no forward operation reads.
Marks apply_of(const FlatFunction& flat, std::size_t state, const Marks& forward) {
  std::vector<bool> follows(flat.values.size());
  for (std::size_t i = 0; i < state; ++i)
    follows[static_cast<std::size_t>(flat.arguments[i])] = true;
  for (std::size_t i = 0; i < forward.size(); ++i)
    if (forward[i])
      for (int v : flat.operations[i].operands) follows[static_cast<std::size_t>(v)] = false;
  Marks apply(flat.operations.size());
  for (std::size_t i = 0; i < apply.size(); ++i) {
    const FlatOperation& operation = flat.operations[i];
    apply[i] = !forward[i] && std::ranges::any_of(operation.operands, [&](int v) {
      return follows[static_cast<std::size_t>(v)];
    });
    if (apply[i])
      for (int v : operation.results) follows[static_cast<std::size_t>(v)] = true;
  }
  return apply;
}

}  // namespace

void divide_step(FlatFunction& flat, std::size_t state) {
  const Marks forward = forward_of(flat, state), apply = apply_of(flat, state, forward);
  for (std::size_t i = 0; i < flat.operations.size(); ++i)
    flat.operations[i].region = forward[i] ? Region::forward
                                : apply[i] ? Region::apply
                                           : Region::backward;
}

}  // namespace alpa::stablehlo
