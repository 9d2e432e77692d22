// src/import/emit_elementwise.cc — kinds that compute each element by itself
#include <cmath>
#include <limits>

#include "alpa/base/text.h"
#include "alpa/ops/ops.h"
#include "src/import/emit.h"

namespace alpa::stablehlo {
namespace {

bool is_mask(const Call& call) { return call.operand(0).type.is_mask(); }
bool is_unsigned(const Call& call) { return call.operand(0).type.is_unsigned(); }

template <Value (*f)(Value)>
Values unary(const Call& call) {
  return {f(call.in[0])};
}

Value both(Value x, Value y) { return where(x, y, 0); }
Value either(Value x, Value y) { return where(x, 1, y); }

/// `masks` is for i1, `what` the name of the same in `bits`.
template <Value (*f)(Value, Value), Value (*masks)(Value, Value)>
Values binary(const Call& call, std::string_view what) {
  if (is_mask(call)) return {masks(call.in[0], call.in[1])};
  if (is_unsigned(call) && !what.empty()) return {bits(what, call.in[0], call.in[1])};
  return {f(call.in[0], call.in[1])};
}

Values add(const Call& call) { return binary<operator+, either>(call, "add"); }
Values subtract(const Call& call) { return binary<operator-, ne>(call, "sub"); }
Values multiply(const Call& call) { return binary<operator*, both>(call, "mul"); }
Values divide(const Call& call) {
  if (is_unsigned(call)) return {bits("div", call.in[0], call.in[1])};
  if (!is_floating(call.in.at(0).dtype())) {
    // towards zero, as f64 holds all of i32
    return {cast(cast(call.in[0], f64) / cast(call.in.at(1), f64), i32)};
  }
  return binary<operator/, both>(call, "");
}

/// x - y · trunc(x / y)
Values remainder(const Call& call) {
  if (is_unsigned(call)) return {bits("rem", call.in[0], call.in[1])};
  const Value quotient = divide(call)[0];
  const Value whole =
      is_floating(quotient.dtype()) ? sign(quotient) * floor(abs(quotient)) : quotient;
  return {call.in[0] - call.in[1] * whole};
}

Values sign_of(const Call& call) {
  if (is_unsigned(call)) call.fail("of unsigned numbers is not supported; use i32");
  const DType dtype = call.in[0].dtype();
  return {is_floating(dtype) ? sign(call.in[0]) : cast(sign(cast(call.in[0], f64)), dtype)};
}

Value larger_bits(Value x, Value y) { return where(bits("ge", x, y), x, y); }
Value smaller_bits(Value x, Value y) { return where(bits("le", x, y), x, y); }

/// max(x, 0) has gradient 0 at 0, as jax's relu.
Values maximum_of(const Call& call) {
  if (is_floating(call.in[0].dtype()))
    for (std::size_t i : {0, 1})
      if (call.known(i) == 0.0) return {relu(call.in[1 - i])};
  if (is_unsigned(call)) return {larger_bits(call.in[0], call.in[1])};
  return binary<maximum, either>(call, "");
}
Values minimum_of(const Call& call) {
  if (is_unsigned(call)) return {smaller_bits(call.in[0], call.in[1])};
  return binary<minimum, both>(call, "");
}

Values power(const Call& call) {
  if (!is_floating(call.in[0].dtype())) call.fail("of whole numbers is not supported; use f32");
  if (const auto exponent = call.known(1)) return {pow(call.in[0], *exponent)};
  return {pow(call.in[0], call.in[1])};
}

template <Value (*masks)(Value, Value)>
Values logic(const Call& call, std::string_view what) {
  if (is_mask(call)) return {masks(call.in[0], call.in[1])};
  return {bits(what, call.in[0], call.in[1])};
}

Values and_of(const Call& call) { return logic<both>(call, "and"); }
Values or_of(const Call& call) { return logic<either>(call, "or"); }
Values xor_of(const Call& call) { return logic<ne>(call, "xor"); }
Values shift_left(const Call& call) { return {bits("shl", call.in[0], call.in[1])}; }
Values shift_right(const Call& call) { return {bits("shr", call.in[0], call.in[1])}; }

/// Negative numbers are shifted as the bits that they lack.
Values shift_right_signed(const Call& call) {
  const Value x = call.in[0];
  if (is_unsigned(call) || x.dtype() != i32) call.fail("is supported of i32 alone");
  const auto all = [&](int number) { return constant(call.graph, number, i32, x.shape()); };
  const Value sign = where(lt(x, 0), all(-1), all(0));
  return {bits("xor", bits("shr", bits("xor", x, sign), call.in[1]), sign)};
}

Values not_of(const Call& call) {
  if (is_mask(call)) return {eq(call.in[0], 0)};
  return {bits("xor", call.in[0], constant(call.graph, -1, i32, call.in[0].shape()))};
}

Values compare(const Call& call) {
  const std::string& how = call.source().attribute("comparison_direction").text;
  const Value x = call.in[0], y = call.in[1];
  if (how == "EQ") return {eq(x, y)};
  if (how == "NE") return {ne(x, y)};
  const bool bitwise = is_unsigned(call);
  if (how == "LT") return {bitwise ? bits("lt", x, y) : lt(x, y)};
  if (how == "LE") return {bitwise ? bits("le", x, y) : le(x, y)};
  if (how == "GT") return {bitwise ? bits("gt", x, y) : gt(x, y)};
  if (how == "GE") return {bitwise ? bits("ge", x, y) : ge(x, y)};
  call.fail("there is no comparison {}", excerpt(how));
}

Values select(const Call& call) { return {where(call.in[0], call.in[1], call.in[2])}; }

Values clamp(const Call& call) {
  const auto [low, x, high] = std::tuple(call.in[0], call.in[1], call.in[2]);
  if (is_unsigned(call)) call.fail("of unsigned numbers is not supported; use i32");
  return {minimum(maximum(x, low), high)};
}

Values convert(const Call& call) {
  const Value x = call.in[0];
  const DType to = call.result_type().dtype;
  if (call.result().is_mask()) return {is_mask(call) ? x : ne(x, 0)};
  if (is_unsigned(call) && is_floating(to)) return {cast(bits_as("f32", x), to)};
  if (call.result().is_unsigned() && is_floating(x.dtype()))
    call.fail("of floating numbers to unsigned ones is not supported; use i32");
  return {cast(x, to)};
}

Values bitcast(const Call& call) {
  const DType to = call.result_type().dtype;
  if (call.in[0].dtype() == to) return {call.in[0]};
  if (call.in[0].dtype() == i32 && to == f32) return {bits_as("as_f32", call.in[0])};
  if (call.in[0].dtype() == f32 && to == i32) return {bits_as("as_i32", call.in[0])};
  call.fail("from {} to {} is not supported, only between types of 32 bits",
            to_string(call.operand(0).type), to_string(call.result()));
}

Values is_finite(const Call& call) {
  return {lt(abs(call.in[0]), std::numeric_limits<double>::infinity())};
}

Value log_plus_one(Value x) { return log(x + 1.0); }
Value exponential_minus_one(Value x) { return exp(x) - 1.0; }
Value negate(Value x) { return -x; }
Value ceil(Value x) { return -floor(-x); }
Value erfc(Value x) { return 1.0 - erf(x); }
Value cbrt(Value x) { return sign(x) * pow(abs(x), 1.0 / 3); }
Value sinh(Value x) { return 0.5 * (exp(x) - exp(-x)); }
Value cosh(Value x) { return 0.5 * (exp(x) + exp(-x)); }

/// The nearest whole number; the even one of two.
Value round_even(Value x) {
  const Value below = floor(x), rest = x - below, odd = below - 2.0 * floor(0.5 * below);
  return stop_gradient(below + where(gt(rest, 0.5), 1, 0, x.dtype()) +
                       where(eq(rest, 0.5), odd, 0));
}
/// The nearest whole number; of two the one further from 0.
Value round_away(Value x) {
  const Value size = abs(x), below = floor(size);
  return stop_gradient(sign(x) * (below + where(ge(size - below, 0.5), 1, 0, x.dtype())));
}

Value polynomial(Value x, std::initializer_list<double> coefficients) {
  Value y;
  for (double c : coefficients) y = y ? y * x + c : x * 0.0 + c;
  return y;
}

/// Giles 2011, "Approximating the erfinv function", in single precision, as XLA.
Value erf_inv(Value x) {
  constexpr double kTail = 5;
  const Value w = -log((1.0 - x) * (1.0 + x));
  const Value center =
      polynomial(w - 2.5, {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06,
                           0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941});
  const Value tail =
      polynomial(sqrt(maximum(w, kTail)) - 3.0,
                 {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                  -0.0076224613, 0.00943887047, 1.00167406, 2.83297682});
  return x * where(lt(w, kTail), center, tail);
}

}  // namespace

std::vector<Row> elementwise_rows() {
  return {
      {"stablehlo.abs", unary<abs>, 1},
      {"stablehlo.add", add, 2},
      {"stablehlo.and", and_of, 2},
      {"stablehlo.bitcast_convert", bitcast, 1},
      {"stablehlo.cbrt", unary<cbrt>, 1},
      {"stablehlo.ceil", unary<ceil>, 1},
      {"stablehlo.clamp", clamp, 3},
      {"stablehlo.compare", compare, 2},
      {"stablehlo.convert", convert, 1},
      {"stablehlo.cosine", unary<cos>, 1},
      {"stablehlo.divide", divide, 2},
      {"stablehlo.exponential", unary<exp>, 1},
      {"stablehlo.exponential_minus_one", unary<exponential_minus_one>, 1},
      {"stablehlo.floor", unary<floor>, 1},
      {"stablehlo.is_finite", is_finite, 1},
      {"stablehlo.log", unary<log>, 1},
      {"stablehlo.log_plus_one", unary<log_plus_one>, 1},
      {"stablehlo.logistic", unary<sigmoid>, 1},
      {"stablehlo.maximum", maximum_of, 2},
      {"stablehlo.minimum", minimum_of, 2},
      {"stablehlo.multiply", multiply, 2},
      {"stablehlo.negate", unary<negate>, 1},
      {"stablehlo.not", not_of, 1},
      {"stablehlo.or", or_of, 2},
      {"stablehlo.power", power, 2},
      {"stablehlo.remainder", remainder, 2},
      {"stablehlo.round_nearest_afz", unary<round_away>, 1},
      {"stablehlo.round_nearest_even", unary<round_even>, 1},
      {"stablehlo.rsqrt", unary<rsqrt>, 1},
      {"stablehlo.select", select, 3},
      {"stablehlo.shift_left", shift_left, 2},
      {"stablehlo.shift_right_arithmetic", shift_right_signed, 2},
      {"stablehlo.shift_right_logical", shift_right, 2},
      {"stablehlo.sign", sign_of, 1},
      {"stablehlo.sine", unary<sin>, 1},
      {"stablehlo.sqrt", unary<sqrt>, 1},
      {"stablehlo.subtract", subtract, 2},
      {"stablehlo.tanh", unary<tanh>, 1},
      {"stablehlo.xor", xor_of, 2},
      {"chlo.cosh", unary<cosh>, 1},
      {"chlo.erf", unary<erf>, 1},
      {"chlo.erf_inv", unary<erf_inv>, 1},
      {"chlo.sinh", unary<sinh>, 1},
      {"chlo.erfc", unary<erfc>, 1},
      {"chlo.square", unary<square>, 1},
  };
}

}  // namespace alpa::stablehlo
