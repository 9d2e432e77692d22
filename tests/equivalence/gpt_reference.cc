#include "equivalence/gpt_reference.h"

#include <cmath>
#include <numbers>

namespace alpa::testing {

namespace {

using Vector = std::vector<double>;
using Rows = std::vector<Vector>;  ///< per token of one sequence: its channels

Vector normalised(const Vector& x, const Vector& gain, const Vector& shift) {
  double mean = 0, variance = 0;
  for (double v : x) mean += v / static_cast<double>(x.size());
  for (double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
  Vector y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    y[i] = (x[i] - mean) / std::sqrt(variance + 1e-5) * gain[i] + shift[i];
  return y;
}

/// x · w (+ bias), w [in, out].
Vector product(const Vector& x, const Vector& w, std::size_t out, const Vector* bias = nullptr) {
  Vector y = bias ? *bias : Vector(out, 0);
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t o = 0; o < out; ++o) y[o] += x[i] * w[i * out + o];
  return y;
}

double gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

class Reference {
 public:
  Reference(const GptStack& stack, const Tensors& parameters)
      : s_(stack), parameters_(parameters) {}

  /// Summed over the tokens of one sequence.
  double loss(const int* x, const int* y) const {
    Rows rows(s_.sequence);
    for (int t = 0; t < s_.sequence; ++t)
      for (int d = 0; d < s_.hidden; ++d)
        rows[t].push_back(at("embedding")[x[t] * s_.hidden + d] +
                          at("position")[t * s_.hidden + d]);
    for (int layer = 0; layer < s_.layers; ++layer) block(rows, "layer" + std::to_string(layer));
    double sum = 0;
    for (int t = 0; t < s_.sequence; ++t) sum += cross_entropy(norm(rows[t], "norm"), y[t]);
    return sum;
  }

 private:
  const Vector& at(const std::string& name) const { return parameters_.at(name); }

  Vector norm(const Vector& x, const std::string& name) const {
    return normalised(x, at(name + ".gain"), at(name + ".shift"));
  }

  void block(Rows& rows, const std::string& name) const {
    Rows normal;
    for (const Vector& row : rows) normal.push_back(norm(row, name + ".norm1"));
    const Rows attended = attention(normal, name);
    for (std::size_t t = 0; t < rows.size(); ++t) {
      add(rows[t], attended[t]);
      Vector wide = product(norm(rows[t], name + ".norm2"), at(name + ".up.kernel"), 4 * s_.hidden,
                            &at(name + ".up.bias"));
      for (double& v : wide) v = gelu(v);
      add(rows[t], product(wide, at(name + ".down.kernel"), s_.hidden, &at(name + ".down.bias")));
    }
  }

  /// Projections [D, H, K] and [H, K, D] are matrices [D, H·K] and [H·K, D].
  Rows attention(const Rows& x, const std::string& name) const {
    Rows q, k, v, result;
    for (const Vector& row : x) {
      q.push_back(product(row, at(name + ".query.kernel"), s_.hidden));
      k.push_back(product(row, at(name + ".key.kernel"), s_.hidden));
      v.push_back(product(row, at(name + ".value.kernel"), s_.hidden));
    }
    for (std::size_t t = 0; t < x.size(); ++t) {
      Vector heads(s_.hidden, 0);
      for (int h = 0; h < s_.heads; ++h) attend(q[t], k, v, t, h, heads);
      result.push_back(product(heads, at(name + ".output.kernel"), s_.hidden));
    }
    return result;
  }

  /// Head `h` of token t attends to tokens 0 … t.
  void attend(const Vector& q, const Rows& k, const Rows& v, std::size_t t, int h,
              Vector& heads) const {
    const auto width = static_cast<int>(s_.hidden / s_.heads);
    Vector weights;
    double sum = 0;
    for (std::size_t other = 0; other <= t; ++other) {
      double score = 0;
      for (int i = h * width; i < (h + 1) * width; ++i) score += q[i] * k[other][i];
      weights.push_back(std::exp(score / std::sqrt(static_cast<double>(width))));
      sum += weights.back();
    }
    for (std::size_t other = 0; other <= t; ++other)
      for (int i = h * width; i < (h + 1) * width; ++i)
        heads[i] += weights[other] / sum * v[other][i];
  }

  /// -log softmax(x · embeddingᵀ)[label].
  double cross_entropy(const Vector& x, int label) const {
    double sum = 0, own = 0;
    for (int v = 0; v < s_.vocabulary; ++v) {
      double logit = 0;
      for (int d = 0; d < s_.hidden; ++d) logit += x[d] * at("embedding")[v * s_.hidden + d];
      sum += std::exp(logit);
      if (v == label) own = logit;
    }
    return std::log(sum) - own;
  }

  static void add(Vector& x, const Vector& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  const GptStack& s_;
  const Tensors& parameters_;
};

}  // namespace

double gpt_reference_loss(const GptStack& stack, const Tensors& parameters,
                          const std::vector<int>& x, const std::vector<int>& y) {
  const Reference reference(stack, parameters);
  double sum = 0;
  for (std::size_t t = 0; t < x.size(); t += stack.sequence) sum += reference.loss(&x[t], &y[t]);
  return sum / static_cast<double>(x.size());
}

Tensors gpt_reference_gradients(const GptStack& stack, Tensors parameters,
                                const std::vector<int>& x, const std::vector<int>& y) {
  constexpr double kStep = 1e-5;
  Tensors gradients;
  for (auto& [name, elements] : parameters)
    for (double& element : elements) {
      const double at = element;
      element = at + kStep;
      const double above = gpt_reference_loss(stack, parameters, x, y);
      element = at - kStep;
      const double below = gpt_reference_loss(stack, parameters, x, y);
      element = at;
      gradients[name].push_back((above - below) / (2 * kStep));
    }
  return gradients;
}

}  // namespace alpa::testing
