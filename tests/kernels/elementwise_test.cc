#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "kernel_call.h"
#include "kernels/cpu/kernels.h"
#include "src/tensor/elementwise_program.h"
#include "support/few_bits.h"

namespace alpa::elementwise_test {
namespace {

using namespace testing;

template <int... codes>
std::vector<const KernelDef*> kernels_of(std::integer_sequence<int, codes...>) {
  return {&cpu::elementwise<static_cast<ElementwiseOp>(codes)>...};
}
const KernelDef& kernel_of(ElementwiseOp op) {
  static const auto all = kernels_of(std::make_integer_sequence<int, kNumElementwiseOps>{});
  return *all[static_cast<int>(op)];
}

/// Of a position between codes of a dynamic map: the highest of the decades' lines, within [0, 1].
double dynamic_value(double position) {
  double value = 0;
  for (int decade = 0; decade < 7; ++decade)
    value = std::fmax(
        value, std::pow(10, decade - 6) * (0.9 * (position + 0.5) / std::exp2(decade) - 0.8));
  return std::fmin(value, 1);
}

/// The formulas once more, by libm in double.
double reference(ElementwiseOp op, double a, double b, double c) {
  const double u = std::sqrt(2 / M_PI) * (a + 0.044715 * a * a * a);
  switch (op) {
    case ElementwiseOp::add: return a + b;
    case ElementwiseOp::sub: return a - b;
    case ElementwiseOp::mul: return a * b;
    case ElementwiseOp::div: return a / b;
    case ElementwiseOp::max: return a != a || b != b ? NAN : std::fmax(a, b);
    case ElementwiseOp::min: return a != a || b != b ? NAN : std::fmin(a, b);
    case ElementwiseOp::pow: return std::pow(a, b);
    case ElementwiseOp::eq: return a == b;
    case ElementwiseOp::ne: return a != b;
    case ElementwiseOp::lt: return a < b;
    case ElementwiseOp::le: return a <= b;
    case ElementwiseOp::gt: return a > b;
    case ElementwiseOp::ge: return a >= b;
    case ElementwiseOp::where: return a != 0 ? b : c;
    case ElementwiseOp::multiply_add: return a * b + c;
    case ElementwiseOp::neg: return -a;
    case ElementwiseOp::abs: return std::fabs(a);
    case ElementwiseOp::sign: return a > 0 ? 1 : a < 0 ? -1 : a;
    case ElementwiseOp::exp: return std::exp(a);
    case ElementwiseOp::log: return std::log(a);
    case ElementwiseOp::sqrt: return std::sqrt(a);
    case ElementwiseOp::rsqrt: return 1 / std::sqrt(a);
    case ElementwiseOp::tanh: return std::tanh(a);
    case ElementwiseOp::sigmoid: return 1 / (1 + std::exp(-a));
    case ElementwiseOp::relu: return a > 0 ? a : a != a ? a : 0;
    case ElementwiseOp::step: return a > 0;
    case ElementwiseOp::gelu: return a / 2 * (1 + std::tanh(u));
    case ElementwiseOp::gelu_grad:
      return (1 + std::tanh(u)) / 2 + a / 2 * (1 - std::tanh(u) * std::tanh(u)) *
                                          std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * a * a);
    case ElementwiseOp::sin: return std::sin(a);
    case ElementwiseOp::cos: return std::cos(a);
    case ElementwiseOp::floor: return std::floor(a);
    case ElementwiseOp::erf: return std::erf(a);
    case ElementwiseOp::stochastic_bf16: return testing::stochastic_bf16(a, b);
    case ElementwiseOp::dynamic_code: return testing::dynamic_code<false>(a);
    case ElementwiseOp::signed_dynamic_code: return testing::dynamic_code<true>(a);
    case ElementwiseOp::dynamic_value: return dynamic_value(a / 2 + 0.25);
    case ElementwiseOp::signed_dynamic_value:
      return std::copysign(dynamic_value(std::fabs(a - 127)), a - 127);
    case ElementwiseOp::square: return a * a;
    case ElementwiseOp::reciprocal: return 1 / a;
    case ElementwiseOp::cast_f32: return static_cast<float>(a);
    case ElementwiseOp::cast_bf16: return to_float(to_bf16(static_cast<float>(a)));
    case ElementwiseOp::cast_f16: return to_float(to_f16(static_cast<float>(a)));
    case ElementwiseOp::cast_i32: return std::trunc(a);
    case ElementwiseOp::cast_u8: return std::trunc(std::fmin(std::fmax(a, 0), 255));
    case ElementwiseOp::copy:
    case ElementwiseOp::cast_f64: return a;
  }
  return NAN;
}

/// Numbers of two bytes are often midway between values of a dynamic map; rounding decides there.
bool meets_ties(ElementwiseOp op, DType dtype) {
  return size_of(dtype) == 2 &&
         (op == ElementwiseOp::dynamic_code || op == ElementwiseOp::signed_dynamic_code);
}

bool is_comparison(ElementwiseOp op) { return op >= ElementwiseOp::eq && op <= ElementwiseOp::ge; }

/// Value of an input broadcast to `shape` at `index`, aligned at the last dimension.
double broadcast_get(const HostTensor& t, const Shape& index) {
  Shape own(t.type.shape.size());
  for (std::size_t d = 0; d < own.size(); ++d)
    own[d] = t.type.shape[d] == 1 ? 0 : index[index.size() - own.size() + d];
  return t.get(flat_index(t.type.shape, own));
}

std::vector<double> reference(ElementwiseOp op, const std::vector<HostTensor>& in,
                              const Shape& shape) {
  std::vector<double> values;
  for_each_index(shape, [&](const Shape& index) {
    double x[3] = {};
    for (std::size_t i = 0; i < in.size(); ++i) x[i] = broadcast_get(in[i], index);
    values.push_back(reference(op, x[0], x[1], x[2]));
  });
  return values;
}

struct Case {
  Shape out;
  std::vector<Shape> in;
};
const Case kCases[] = {
    {{}, {{}, {}, {}}},
    {{0}, {{0}, {0}, {0}}},
    {{3, 0}, {{3, 0}, {1, 0}, {}}},
    {{7}, {{7}, {7}, {7}}},
    {{2500}, {{2500}, {2500}, {2500}}},
    {{3, 37}, {{3, 37}, {37}, {3, 1}}},
    {{5, 4, 3}, {{5, 1, 3}, {1, 4, 1}, {3}}},
    {{3, 1024}, {{3, 1024}, {1024}, {3, 1}}},
    {{3, 2051}, {{2051}, {3, 1}, {}}},
    {{2, 1, 3, 5}, {{2, 1, 3, 5}, {1, 1, 3, 1}, {2, 1, 1, 5}}},
};

TEST_CASE("short rows that repeat are read alike in all blocks") {
  const Case cases[] = {{{90, 64}, {{90, 64}, {64}, {64}}}, {{60, 48}, {{60, 48}, {48}, {60, 1}}}};
  for (const Case& c : cases)
    for (DType dtype : {f32, bf16}) {
      std::vector<HostTensor> in;
      for (const Shape& shape : c.in) in.push_back(random_tensor({dtype, shape}, in.size()));
      const auto got = run_kernel(kernel_of(ElementwiseOp::multiply_add), in,
                                  {HostTensor({dtype, c.out})}, {.threads = 2});
      CHECK(difference(got[0], reference(ElementwiseOp::multiply_add, in, c.out)) <=
            8 * epsilon(dtype));
    }
}

TEST_CASE("every elementwise operator equals its formula in double, for all types and broadcasts") {
  unsigned seed = 0;
  for (int code = 0; code < kNumElementwiseOps; ++code) {
    const ElementwiseOp op = static_cast<ElementwiseOp>(code);
    CAPTURE(std::string(info(op).name));
    const bool positive = op == ElementwiseOp::log || op == ElementwiseOp::sqrt ||
                          op == ElementwiseOp::rsqrt || op == ElementwiseOp::pow;
    for (const Case& c : kCases)
      for (DType dtype : {f32, bf16, f16, f64, i32, u8}) {
        if (!is_floating(dtype) && (info(op).flops > 1 || op == ElementwiseOp::sqrt ||
                                    op == ElementwiseOp::div || op == ElementwiseOp::sub ||
                                    op == ElementwiseOp::neg || op == ElementwiseOp::reciprocal))
          continue;
        if (meets_ties(op, dtype)) continue;
        std::vector<HostTensor> in;
        for (int i = 0; i < info(op).arity; ++i)
          in.push_back(random_tensor({dtype, c.in[i]}, ++seed, positive ? 0.1 : -2));
        const DType out = is_comparison(op) ? u8 : dtype;
        Shape shape = c.out;
        if (info(op).arity == 1) shape = c.in[0];
        const auto got = run_kernel(kernel_of(op), in, {HostTensor({out, shape})});
        CAPTURE(to_string(TensorType{dtype, shape}));
        const double tolerance =
            op == ElementwiseOp::cast_f16 || op == ElementwiseOp::cast_bf16 ? 0 : 8 * epsilon(out);
        CHECK(difference(got[0], reference(op, in, shape)) <= std::max(tolerance, epsilon(out)));
      }
  }
}

}  // namespace
}  // namespace alpa::elementwise_test
