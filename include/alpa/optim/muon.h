#pragma once
/// Muon, which makes the updates of matrices orthogonal (Jordan et al. 2024).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "alpa/optim/adam.h"
#include "alpa/optim/rule.h"
#pragma GCC visibility push(default)

namespace alpa::optim {

/// x with its last two dimensions exchanged.
inline Value transposed_matrices(Value x) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 2], order.back());
  return transpose(x, order);
}

/// Matrices [..., R, C] near the orthogonal ones next to x: `iterations` of the quintic
/// Newton-Schulz iteration of Jordan et al., after which singular values are about 1.
inline Value orthogonalized(Value x, int iterations, double epsilon = 1e-7) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  const bool tall = x.dim(-2) > x.dim(-1);
  if (tall) x = transposed_matrices(x);
  x = x / maximum(sqrt(sum(square(x), {-2, -1}, true)), epsilon);
  for (int i = 0; i < iterations; ++i) {
    const Value gram = matmul(x, transposed_matrices(x));
    x = x * a + matmul(gram * b + matmul(gram, gram) * c, x);
  }
  return tall ? transposed_matrices(x) : x;
}

/// Muon: kernels [..., R, C] of R inputs and C outputs, also stacked ones, step along their
/// orthogonalised momentum; other parameters are AdamW's with beta1, beta2 and epsilon. Give tables
/// of tokens and heads to AdamW, too (`StepOptions::groups`). Products are planned as any others: a
/// plan may split them, or gather a matrix and compute it whole.
struct Muon {
  LearningRate learning_rate = 1e-3;           ///< of a step
  double momentum = 0.95, weight_decay = 0.1;  ///< as in torch.optim.Muon
  bool nesterov = true;                        ///< steps along what the momentum will be
  int iterations = 5;                          ///< of Newton-Schulz
  /// Steps have the size of AdamW's, so that its learning rates hold: 0.2·sqrt(max(R, C)) (Liu et
  /// al. 2025); false: sqrt(max(1, C / R)).
  bool match_adamw = false;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  ///< of other parameters

  /// Adds the update of w by its gradient; state "<w>.muon_m", or that of AdamW.
  void update(Builder& builder, Value w, Value gradient, Value rate, Value step) const {
    if (w.rank() < 2)
      return AdamW{.beta1 = beta1, .beta2 = beta2, .epsilon = epsilon, .weight_decay = weight_decay}
          .update(builder, w, gradient, rate, step);
    const DType dtype = update_dtype(w);
    const Value old = cast(w, dtype), g = cast(gradient, dtype), m = moment(w, "muon_m"),
                next = averaged(m, g, momentum), lr = cast(rate, dtype);
    const auto rows = static_cast<double>(w.dim(-2)), columns = static_cast<double>(w.dim(-1));
    const double size = match_adamw ? 0.2 * std::sqrt(std::max(rows, columns))
                                    : std::sqrt(std::max(1.0, columns / rows));
    const Value direction =
        orthogonalized(nesterov ? averaged(next, g, momentum) : next, iterations);
    builder.update(w, cast(old - (direction * size + old * weight_decay) * lr, w.dtype()));
    builder.update(m, next);
  }

  operator Optimizer() const {
    require_fraction("Muon", "momentum", momentum);
    require(iterations >= 1, "optim::Muon: {} iterations; give at least 1", iterations);
    return from_betas("Muon", *this);
  }
};

}  // namespace alpa::optim
#pragma GCC visibility pop
