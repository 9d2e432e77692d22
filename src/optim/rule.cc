// src/optim/rule.cc — parts of update rules that take more than operators
#include "alpa/optim/rule.h"

#include <cmath>

namespace alpa::optim {

Value one_minus_power(double beta, Value step) {
  // With h = step·ln(1/beta)/2: 1 - exp(-2h) = 2 tanh(h) / (1 + tanh(h)).
  if (beta == 0) return constant(step, 1, step.dtype());
  const Value half = tanh(step * (-std::log(beta) / 2));
  return 2 * half / (1 + half);
}

}  // namespace alpa::optim
