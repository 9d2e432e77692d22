// src/optim/rule.cc — parts of update rules that take more than operators
#include "alpa/optim/rule.h"

#include <cmath>

#include "src/ops/all_ops.h"
#include "src/ops/arithmetic.h"
#include "src/ops/unary.h"

namespace alpa::optim {

Value one_minus_power(double beta, Value step) {
  // With h = step·ln(1/beta)/2: 1 - exp(-2h) = 2 tanh(h) / (1 + tanh(h)).
  if (beta == 0) return constant(step, 1, step.dtype());
  const Value half = tanh(step * (-std::log(beta) / 2));
  return 2 * half / (1 + half);
}

Value stochastic_bf16(Value x) {
  return cast(ops::emit_binary(ops::stochastic_bf16, x, random_uniform(x, x.type())), bf16);
}

Value dynamic_code(Value x, bool is_signed) {
  return ops::emit_unary(is_signed ? ops::signed_dynamic_code : ops::dynamic_code, x);
}

Value dynamic_value(Value codes, bool is_signed) {
  return ops::emit_unary(is_signed ? ops::signed_dynamic_value : ops::dynamic_value, codes);
}

}  // namespace alpa::optim
