// src/import/match_simple.cc — activations and norms
#include <cmath>

#include "src/import/match.h"

namespace alpa::stablehlo {
namespace {

bool is_near(double x, double y) { return std::abs(x - y) <= 1e-6 * std::abs(y); }

/// v = number · (the value that is returned); -1: not.
int scaled_by(const Matching& m, int v, double number) {
  double found = 0;
  const int x = scaled(m, v, found);
  return x >= 0 && is_near(found, number) ? x : -1;
}

/// v = number + (the value that is returned); -1: not.
int added_to(const Matching& m, int v, double number) {
  int found = -1;
  either_way(m.made_by(v, "stablehlo.add"), [&](int x, int y) {
    const auto known = m.known(m.spread(x).base);
    if (!known || !is_near(*known, number)) return false;
    found = y;
    return true;
  });
  return found;
}

/// 1 / (1 + e^-x)
bool match_sigmoid(Matching& m, FlatOperation& operation) {
  if (operation.kind != "stablehlo.divide" || m.known(operation.operands[0]) != 1.0) return false;
  const FlatOperation* const power =
      m.made_by(added_to(m, operation.operands[1], 1), "stablehlo.exponential");
  const FlatOperation* const minus =
      power ? m.made_by(power->operands[0], "stablehlo.negate") : nullptr;
  return minus &&
         replace(m, operation, {.kind = "alpa.sigmoid", .operands = minus->operands, .results = {}},
                 power->results[0]);
}

/// The square or the cube of a value.
int power_of(const Matching& m, int v, double exponent) {
  if (const FlatOperation* const square = m.made_by(v, "chlo.square"); square && exponent == 2)
    return square->operands[0];
  if (const FlatOperation* const power = m.made_by(v, "stablehlo.power"))
    return m.known(m.spread(power->operands[1]).base) == exponent ? power->operands[0] : -1;
  int found = -1;
  either_way(m.made_by(v, "stablehlo.multiply"), [&](int x, int y) {
    if (exponent == 2 ? x == y : power_of(m, x, 2) == y) found = y;
    return found >= 0;
  });
  return found;
}

/// √(2/π) (x + 0.044715 x³)
bool is_gelu_argument(const Matching& m, int v, int x) {
  const int inner = scaled_by(m, v, std::sqrt(2 / std::acos(-1.0)));
  return inner >= 0 && either_way(m.made_by(inner, "stablehlo.add"), [&](int a, int b) {
           const int cube = scaled_by(m, b, 0.044715);
           return m.unconverted(a) == m.unconverted(x) && cube >= 0 && power_of(m, cube, 3) == a;
         });
}

/// x/√2, or -x/√2
bool is_erf_argument(const Matching& m, int v, int x, double sign) {
  double number = 0;
  const int inner = scaled(m, v, number);
  if (inner == x) return is_near(number, sign * std::sqrt(0.5));
  const FlatOperation* const minus = m.made_by(inner, "stablehlo.negate");
  return minus && minus->operands[0] == x && is_near(number, -sign * std::sqrt(0.5));
}

/// What x is multiplied with: ½ (1 + tanh(…)), ½ (1 + erf(…)) or ½ erfc(…), with the ½ at either of
/// the factors.
bool match_gelu(Matching& m, FlatOperation& operation) {
  if (operation.kind != "stablehlo.multiply") return false;
  return either_way(&operation, [&](int first, int second) {
    const int half = scaled_by(m, second, 0.5), x = half >= 0 ? first : scaled_by(m, first, 0.5),
              gate = half >= 0 ? half : second;
    if (x < 0) return false;
    const int one_more = added_to(m, gate, 1);
    if (const FlatOperation* const f = m.made_by(one_more, "stablehlo.tanh"))
      return is_gelu_argument(m, f->operands[0], x) &&
             replace(m, operation, {.kind = "alpa.gelu", .operands = {x}, .results = {}},
                     f->results[0]);
    const FlatOperation *const f = m.made_by(one_more, "chlo.erf"), *const g = m.made_by(
                                                                        gate, "chlo.erfc");
    if (!(f ? is_erf_argument(m, f->operands[0], x, 1)
            : g && is_erf_argument(m, g->operands[0], x, -1)))
      return false;
    return replace(m, operation, {.kind = "alpa.exact_gelu", .operands = {x}, .results = {}},
                   (f ? f : g)->results[0]);
  });
}

/// The value whose mean over the last dimension is `v`, one number a row; -1: not a mean.
int mean_of(const Matching& m, int v) {
  double number = 0;
  const int total = scaled(m, m.spread(v).base, number);
  if (total < 0) return -1;
  const int x = m.reduced(m.spread(total).base, "stablehlo.add");
  if (x < 0) return -1;
  return is_near(number * static_cast<double>(m.shape(x).back()), 1) ? x : -1;
}

/// x - mean(x)
int centered(const Matching& m, int v) {
  const FlatOperation* const difference = m.made_by(v, "stablehlo.subtract");
  if (!difference) return -1;
  const int x = difference->operands[0];
  const int row = m.rows(difference->operands[1], x);
  return row >= 0 && mean_of(m, row) == x ? x : -1;
}

/// max(0, mean(x²) - mean(x)²)
int fast_variance_of(const Matching& m, int v) {
  int found = -1;
  either_way(m.made_by(m.spread(v).base, "stablehlo.maximum"), [&](int zero, int difference) {
    const FlatOperation* const minus = m.made_by(difference, "stablehlo.subtract");
    if (m.known(m.spread(zero).base) != 0.0 || !minus) return false;
    const int squares = mean_of(m, minus->operands[0]), mean = power_of(m, minus->operands[1], 2);
    if (squares < 0 || mean < 0 || power_of(m, squares, 2) != mean_of(m, mean)) return false;
    found = mean_of(m, mean);
    return true;
  });
  return found;
}

struct Norm {
  int x = -1, scale = -1, bias = -1, rsqrt = -1;
  double epsilon = 0;
  bool centers = false;
};

/// 1/√(v + ε): its operand v; -1: not.
int under_rsqrt(const Matching& m, int factor, int like, Norm& norm) {
  // A row's number for every element, or with a last dimension of extent 1.
  const int row = m.rows(factor, like);
  const FlatOperation* const root = m.made_by(row, "stablehlo.rsqrt");
  if (!root) return -1;
  norm.rsqrt = root->results[0];
  int found = -1;
  either_way(m.made_by(root->operands[0], "stablehlo.add"), [&](int v, int epsilon) {
    const auto known = m.known(m.spread(epsilon).base);
    if (!known) return false;
    norm.epsilon = *known, found = v;
    return true;
  });
  return found;
}

/// Whether `factor` is 1/√(variance + ε) of the rows of x, which is `tensor`, or `tensor` plus its
/// mean.
bool find_rows(const Matching& m, int tensor, int factor, int like, Norm& norm) {
  if (m.shape(tensor) != m.shape(like)) return false;
  const int variance = under_rsqrt(m, factor, like, norm);
  if (variance < 0) return false;
  const int squares = mean_of(m, variance), of = squares < 0 ? -1 : power_of(m, squares, 2),
            x = centered(m, tensor);
  norm.centers =
      x >= 0 && (fast_variance_of(m, variance) == x || (of >= 0 && centered(m, of) == x));
  norm.x = norm.centers ? x : of >= 0 && m.unconverted(of) == m.unconverted(tensor) ? tensor : -1;
  return norm.x >= 0;
}

/// x̂ · scale: (tensor · rows) · scale or tensor · (rows · scale).
bool find_product(const Matching& m, int v, Norm& norm) {
  return either_way(m.made_by(v, "stablehlo.multiply"), [&](int a, int b) {
    norm.scale = m.column(b, v);
    if (norm.scale >= 0)
      return either_way(m.made_by(a, "stablehlo.multiply"),
                        [&](int tensor, int row) { return find_rows(m, tensor, row, v, norm); });
    const int inner = m.spread(b).base;
    return m.rank(inner) == m.rank(v) &&
           either_way(m.made_by(inner, "stablehlo.multiply"), [&](int row, int scale) {
             norm.scale = m.column(scale, v);
             return norm.scale >= 0 && find_rows(m, a, row, v, norm);
           });
  });
}

bool replace_norm(Matching& m, FlatOperation& operation, const Norm& norm) {
  std::vector<int> operands = {norm.x, norm.scale};
  if (norm.bias >= 0) operands.push_back(norm.bias);
  return replace(m, operation,
                 {.kind = norm.centers ? "alpa.layer_norm" : "alpa.rms_norm",
                  .operands = operands,
                  .results = {},
                  .numbers = {norm.epsilon}},
                 norm.rsqrt);
}

}  // namespace

bool match_activation(Matching& m, FlatOperation& operation) {
  return match_sigmoid(m, operation) || match_gelu(m, operation);
}

bool match_norm(Matching& m, FlatOperation& operation) {
  const int v = operation.results[0];
  Norm norm;
  if (operation.kind == "stablehlo.add")
    return either_way(&operation, [&](int product, int bias) {
      norm = {};
      const int base = m.column(bias, v);
      if (base < 0 || !find_product(m, product, norm) || !norm.centers) return false;
      norm.bias = base;
      return replace_norm(m, operation, norm);
    });
  return operation.kind == "stablehlo.multiply" && find_product(m, v, norm) &&
         replace_norm(m, operation, norm);
}

}  // namespace alpa::stablehlo
