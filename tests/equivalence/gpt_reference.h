#pragma once
/// The loss of a GPT-like stack (tests/support/gpt_stack.h) in f64, written with loops over
/// indices; shares no code with the library.
#include <map>
#include <string>
#include <vector>

#include "support/gpt_stack.h"

namespace alpa::testing {

/// Parameters and other tensors by name, row-major.
using Tensors = std::map<std::string, std::vector<double>>;

/// Mean cross entropy of tokens x predicting y, both [B, T] (embedding einsums,
/// causal mask, heads by einsum).
double gpt_reference_loss(const GptStack& stack, const Tensors& parameters,
                          const std::vector<int>& x, const std::vector<int>& y);

/// d loss / d parameter by central differences, for every element of every parameter.
Tensors gpt_reference_gradients(const GptStack& stack, Tensors parameters,
                                const std::vector<int>& x, const std::vector<int>& y);

}  // namespace alpa::testing
