#pragma once
/// All elementwise formulas, shared by every backend. C++17, includes no other header of the
/// project. `T` is float or double, or a backend's vector of them with the same operators:
/// comparison gives a mask `m`, `select(m, a, b)` picks, and exp, log, sqrt, tanh, abs, pow, sin,
/// cos, floor, erf and round_to_* are found by argument-dependent lookup.
#include <cmath>
#include <cstdint>

#if defined(__CUDACC__)
#define ALPA_HOST_DEVICE __host__ __device__
#else
#define ALPA_HOST_DEVICE
#endif

namespace alpa {

/// Codes of the elementwise formulas: `OpDef::elementwise` and the steps of a fused
/// program. Operands are a, b, c.
enum class ElementwiseOp : int {
  add,
  sub,
  mul,
  div,  ///< a + b, a - b, a * b, a / b
  max,
  min,  ///< NaN if either is NaN
  pow,  ///< a to the power of b
  eq,
  ne,
  lt,
  le,
  gt,
  ge,            ///< 1 if a ? b, else 0
  where,         ///< a != 0 ? b : c
  multiply_add,  ///< a * b + c
  neg,
  abs,
  sign,  ///< sign: -1, 0 or 1
  exp,
  log,
  sqrt,
  rsqrt,
  tanh,
  sigmoid,
  relu,       ///< a > 0 ? a : 0, NaN stays
  step,       ///< a > 0 ? 1 : 0
  gelu,       ///< tanh form: a/2 (1 + tanh(√(2/π) (a + 0.044715 a³)))
  gelu_grad,  ///< derivative of gelu
  square,
  reciprocal,
  copy,  ///< a
  cast_f32,
  cast_bf16,
  cast_f16,
  cast_f64,  ///< a rounded to nearest even
  cast_i32,
  cast_u8,  ///< a towards zero, saturated; NaN gives 0
  sin,
  cos,
  floor,
  erf,              ///< 2/√π ∫₀ᵃ e^-t² dt
  stochastic_bf16,  ///< a rounded to a neighbour in bf16, to that which b in [0, 1) says
  dynamic_code,
  signed_dynamic_code,  ///< the nearest code of a dynamic map, 0 to 255
  dynamic_value,
  signed_dynamic_value,  ///< the value of code a
};

/// One row per code, in the order of the enumeration.
struct ElementwiseInfo {
  const char* name;
  int arity;
  double flops;  ///< counted per element
};

// clang-format off
inline constexpr ElementwiseInfo kElementwise[] = {
    {"add", 2, 1},       {"sub", 2, 1},        {"mul", 2, 1},          {"div", 2, 1},
    {"max", 2, 1},       {"min", 2, 1},        {"pow", 2, 10},         {"eq", 2, 1},
    {"ne", 2, 1},        {"lt", 2, 1},         {"le", 2, 1},           {"gt", 2, 1},
    {"ge", 2, 1},        {"where", 3, 1},      {"multiply_add", 3, 2}, {"neg", 1, 1},
    {"abs", 1, 1},       {"sign", 1, 1},       {"exp", 1, 8},          {"log", 1, 8},
    {"sqrt", 1, 1},      {"rsqrt", 1, 2},      {"tanh", 1, 10},        {"sigmoid", 1, 10},
    {"relu", 1, 1},      {"step", 1, 1},       {"gelu", 1, 16},        {"gelu_grad", 1, 24},
    {"square", 1, 1},    {"reciprocal", 1, 1}, {"copy", 1, 0},         {"cast_f32", 1, 0},
    {"cast_bf16", 1, 0}, {"cast_f16", 1, 0},   {"cast_f64", 1, 0},     {"cast_i32", 1, 0},
    {"cast_u8", 1, 0},   {"sin", 1, 12},       {"cos", 1, 12},         {"floor", 1, 1},
    {"erf", 1, 16},      {"stochastic_bf16", 2, 9},
    {"dynamic_code", 1, 80},  {"signed_dynamic_code", 1, 84},
    {"dynamic_value", 1, 24}, {"signed_dynamic_value", 1, 28}};
// clang-format on

inline constexpr int kNumElementwiseOps =
    static_cast<int>(sizeof(kElementwise) / sizeof(kElementwise[0]));
static_assert(kNumElementwiseOps == static_cast<int>(ElementwiseOp::signed_dynamic_value) + 1);

ALPA_HOST_DEVICE constexpr const ElementwiseInfo& info(ElementwiseOp op) {
  return kElementwise[static_cast<int>(op)];
}

namespace elementwise {

/// Scalars behave as one-lane vectors.
template <class T>
ALPA_HOST_DEVICE T select(bool mask, T a, T b) {
  return mask ? a : b;
}

/// e^-|x| is at most 1: no overflow, and full relative accuracy on both sides.
template <class T>
ALPA_HOST_DEVICE T sigmoid(T x) {
  using std::abs;
  using std::exp;
  const T e = exp(-abs(x));
  return select(x >= T(0), T(1), e) / (T(1) + e);
}

/// 2 √(2/π) (x + 0.044715 x³): (1 + tanh(u/2)) / 2 = sigmoid(u), so gelu(x) = x sigmoid(u).
template <class T>
ALPA_HOST_DEVICE T gelu_argument(T x) {
  return x * (T(1.5957691216057308) + T(0.07135481627260025) * x * x);
}

template <class T>
ALPA_HOST_DEVICE T gelu(T x) {
  return x * sigmoid(gelu_argument(x));
}

/// s + x s (1 - s) u'(x) with s = sigmoid(u(x)).
template <class T>
ALPA_HOST_DEVICE T gelu_grad(T x) {
  const T s = sigmoid(gelu_argument(x));
  const T slope = T(1.5957691216057308) + T(0.21406444881780076) * x * x;
  const T correction = x * s * (T(1) - s) * slope;
  return s + select(s * (T(1) - s) > T(0), correction, T(0));
}

/// a rounded to one of its neighbours in bf16: to the farther one if u, uniform in [0, 1), is below
/// its share, so that the mean is a. Just above half its last place, |near| · 129 / 2^15 is enough
/// to find it.
template <class T>
ALPA_HOST_DEVICE T stochastic_bf16(T a, T u) {
  using std::abs;
  const T near = round_to_bf16(a), rest = a - near, further = abs(near) * T(129.0 / 32768);
  const T far = round_to_bf16(near + select(rest < T(0), -further, further));
  return select(u * abs(far - near) < abs(rest), far, near);
}

// Dynamic maps (Dettmers et al. 2022, arXiv 2110.02861): 256 values within [-1, 1], or [0, 1], in
// seven decades, each with twice as many equidistant values as the one below. Values are one
// function of a position. Positive signed values have positions 1, 2, … 128; unsigned ones are
// half as far apart, at 3/4, 5/4, ….

/// The upper end of decade i.
ALPA_HOST_DEVICE constexpr double decade_end(int i) { return i < 6 ? decade_end(i + 1) / 10 : 1; }

/// The largest of the lines of decades `i` and above, and of 0.
template <int i, class T>
ALPA_HOST_DEVICE T dynamic_line(T position) {
  if constexpr (i == 7) {
    return T(0);
  } else {
    constexpr double slope = 0.9 * decade_end(i) / (1 << i);
    const T line = position * T(slope) + T(slope / 2 - 0.8 * decade_end(i)),
            above = dynamic_line<i + 1>(position);
    return select(line > above, line, above);
  }
}

template <class T>
ALPA_HOST_DEVICE T dynamic_at(T position) {
  const T value = dynamic_line<0>(position);
  return select(value > T(1), T(1), value);
}

/// The position of a value by the lines of decades `i` and above.
template <int i, class T>
ALPA_HOST_DEVICE T dynamic_position(T value) {
  const T line = value * T((1 << i) / (0.9 * decade_end(i))) + T((1 << i) / 1.125 - 0.5);
  if constexpr (i == 6) {
    return line;
  } else {
    const T above = dynamic_position<i + 1>(value);
    return select(line < above, line, above);
  }
}

/// Code 127 of signed values is 0.
template <bool is_signed, class T>
ALPA_HOST_DEVICE T dynamic_value(T code) {
  using std::abs;
  if constexpr (!is_signed) {
    return dynamic_at(code * T(0.5) + T(0.25));
  } else {
    const T place = code - T(127), size = dynamic_at(abs(place));
    return select(place < T(0), -size, size);
  }
}

/// The code whose value is not above |x|, or the next if that is nearer.
template <bool is_signed, class T>
ALPA_HOST_DEVICE T dynamic_code(T x) {
  using std::abs;
  using std::floor;
  const T size = is_signed ? abs(x) : x, step(is_signed ? 1 : 0.5), first(is_signed ? 0 : 0.25);
  const T below = floor((dynamic_position<0>(size) - first) / step), at = below * step + first;
  const T middle = (dynamic_at(at) + dynamic_at(at + step)) * T(0.5),
          nearest = below + select(size >= middle, T(1), T(0));
  if constexpr (!is_signed) return round_to_u8(nearest);
  return round_to_u8(T(127) + select(x < T(0), -nearest, nearest));
}

/// The formula of `op`; unused operands are ignored.
template <ElementwiseOp op, class T>
ALPA_HOST_DEVICE T apply(T a, T b, T c) {
  using std::abs;
  using std::cos;
  using std::erf;
  using std::exp;
  using std::floor;
  using std::log;
  using std::pow;
  using std::sin;
  using std::sqrt;
  using std::tanh;
  (void)b, (void)c;
  const T zero = T(0), one = T(1);
  if constexpr (op == ElementwiseOp::add) return a + b;
  if constexpr (op == ElementwiseOp::sub) return a - b;
  if constexpr (op == ElementwiseOp::mul) return a * b;
  if constexpr (op == ElementwiseOp::div) return a / b;
  if constexpr (op == ElementwiseOp::max) return select(a > b, a, select(a == a, b, a));
  if constexpr (op == ElementwiseOp::min) return select(a < b, a, select(a == a, b, a));
  if constexpr (op == ElementwiseOp::pow) return pow(a, b);
  if constexpr (op == ElementwiseOp::eq) return select(a == b, one, zero);
  if constexpr (op == ElementwiseOp::ne) return select(a == b, zero, one);
  if constexpr (op == ElementwiseOp::lt) return select(a < b, one, zero);
  if constexpr (op == ElementwiseOp::le) return select(a <= b, one, zero);
  if constexpr (op == ElementwiseOp::gt) return select(a > b, one, zero);
  if constexpr (op == ElementwiseOp::ge) return select(a >= b, one, zero);
  if constexpr (op == ElementwiseOp::where) return select(a == zero, c, b);
  if constexpr (op == ElementwiseOp::multiply_add) return a * b + c;
  if constexpr (op == ElementwiseOp::neg) return -a;
  if constexpr (op == ElementwiseOp::abs) return abs(a);
  if constexpr (op == ElementwiseOp::sign) return select(a > zero, one, select(a < zero, -one, a));
  if constexpr (op == ElementwiseOp::exp) return exp(a);
  if constexpr (op == ElementwiseOp::log) return log(a);
  if constexpr (op == ElementwiseOp::sqrt) return sqrt(a);
  if constexpr (op == ElementwiseOp::rsqrt) return one / sqrt(a);
  if constexpr (op == ElementwiseOp::tanh) return tanh(a);
  if constexpr (op == ElementwiseOp::sigmoid) return sigmoid(a);
  if constexpr (op == ElementwiseOp::relu) return select(a <= zero, zero, a);
  if constexpr (op == ElementwiseOp::step) return select(a > zero, one, zero);
  if constexpr (op == ElementwiseOp::gelu) return gelu(a);
  if constexpr (op == ElementwiseOp::gelu_grad) return gelu_grad(a);
  if constexpr (op == ElementwiseOp::sin) return sin(a);
  if constexpr (op == ElementwiseOp::cos) return cos(a);
  if constexpr (op == ElementwiseOp::floor) return floor(a);
  if constexpr (op == ElementwiseOp::erf) return erf(a);
  if constexpr (op == ElementwiseOp::stochastic_bf16) return stochastic_bf16(a, b);
  if constexpr (op == ElementwiseOp::dynamic_code) return dynamic_code<false>(a);
  if constexpr (op == ElementwiseOp::signed_dynamic_code) return dynamic_code<true>(a);
  if constexpr (op == ElementwiseOp::dynamic_value) return dynamic_value<false>(a);
  if constexpr (op == ElementwiseOp::signed_dynamic_value) return dynamic_value<true>(a);
  if constexpr (op == ElementwiseOp::square) return a * a;
  if constexpr (op == ElementwiseOp::reciprocal) return one / a;
  if constexpr (op == ElementwiseOp::copy) return a;
  if constexpr (op == ElementwiseOp::cast_f32) return round_to_f32(a);
  if constexpr (op == ElementwiseOp::cast_bf16) return round_to_bf16(a);
  if constexpr (op == ElementwiseOp::cast_f16) return round_to_f16(a);
  if constexpr (op == ElementwiseOp::cast_f64) return a;
  if constexpr (op == ElementwiseOp::cast_i32) return round_to_i32(a);
  if constexpr (op == ElementwiseOp::cast_u8) return round_to_u8(a);
}

/// One step of Adam (Kingma & Ba 2015) in numbers that are the same for all
/// elements; step counts from 1.
struct AdamScalars {
  double beta1, beta2, epsilon;
  double step_size;   ///< learning_rate / (1 - beta1^step)
  double correction;  ///< 1 / sqrt(1 - beta2^step)
  double l2;          ///< added to the gradient per unit of w
  /// share of w kept before the step: 1 - learning_rate * weight_decay for AdamW, else 1
  double keep;
};

/// `power1` is beta1^step, `power2` beta2^step.
ALPA_HOST_DEVICE inline AdamScalars adam_scalars(double beta1, double beta2, double epsilon,
                                                 double weight_decay, bool decoupled,
                                                 double learning_rate, double power1,
                                                 double power2) {
  return {beta1,
          beta2,
          epsilon,
          learning_rate / (1 - power1),
          1 / std::sqrt(1 - power2),
          decoupled ? 0 : weight_decay,
          decoupled ? 1 - learning_rate * weight_decay : 1};
}
ALPA_HOST_DEVICE inline AdamScalars adam_scalars(double beta1, double beta2, double epsilon,
                                                 double weight_decay, bool decoupled,
                                                 double learning_rate, double step) {
  return adam_scalars(beta1, beta2, epsilon, weight_decay, decoupled, learning_rate,
                      std::pow(beta1, step), std::pow(beta2, step));
}

/// The factors of `adam` in the type of computation.
template <class S>
struct AdamFactors {
  S beta1, rest1, beta2, rest2, epsilon, step_size, correction, l2, keep;
};
template <class S>
ALPA_HOST_DEVICE AdamFactors<S> adam_factors(const AdamScalars& s) {
  return {S(s.beta1),     S(1 - s.beta1),  S(s.beta2), S(1 - s.beta2), S(s.epsilon),
          S(s.step_size), S(s.correction), S(s.l2),    S(s.keep)};
}

/// w, m and v become their new values; g is the gradient. `S` is T's scalar type.
template <class S, class T>
ALPA_HOST_DEVICE void adam(T& w, T& m, T& v, T g, const AdamFactors<S>& f) {
  using std::sqrt;
  g = g + T(f.l2) * w;
  m = T(f.beta1) * m + T(f.rest1) * g;
  v = T(f.beta2) * v + T(f.rest2) * (g * g);
  w = T(f.keep) * w - T(f.step_size) * m / (T(f.correction) * sqrt(v) + T(f.epsilon));
}
template <class S, class T>
ALPA_HOST_DEVICE void adam(T& w, T& m, T& v, T g, const AdamScalars& s) {
  adam<S>(w, m, v, g, adam_factors<S>(s));
}

/// Stochastic gradient descent with momentum.
struct SgdScalars {
  double learning_rate, momentum, weight_decay;
  bool nesterov;
};

/// The factors of `sgd` in the type of computation.
template <class S>
struct SgdFactors {
  S learning_rate, momentum, weight_decay;
  bool nesterov;
};
template <class S>
ALPA_HOST_DEVICE SgdFactors<S> sgd_factors(const SgdScalars& s) {
  return {S(s.learning_rate), S(s.momentum), S(s.weight_decay), s.nesterov};
}

/// w and its velocity u become their new values.
template <class S, class T>
ALPA_HOST_DEVICE void sgd(T& w, T& u, T g, const SgdFactors<S>& f) {
  g = g + T(f.weight_decay) * w;
  u = T(f.momentum) * u + g;
  w = w - T(f.learning_rate) * (f.nesterov ? g + T(f.momentum) * u : u);
}
template <class S, class T>
ALPA_HOST_DEVICE void sgd(T& w, T& u, T g, const SgdScalars& s) {
  sgd<S>(w, u, g, sgd_factors<S>(s));
}

}  // namespace elementwise
}  // namespace alpa
