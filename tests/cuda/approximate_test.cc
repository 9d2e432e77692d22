// The card's approximations cannot run here: their documented errors are put into
// the formulas that use them.
#include "kernels/cuda/approximate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cuda/real.h"

namespace alpa::approximate_test {
namespace {

using cuda::Real;

/// The card's functions at one end of the errors that the PTX manual allows: ex2.approx.ftz 2^-22
/// of its value, rcp.approx.ftz one ulp (2^-23).
struct WorstFunctions {
  double power_error, quotient_error;

  float exp2(float x) const {
    const double y = std::exp2(static_cast<double>(x)) * (1 + power_error);
    return y < 0x1p-126 ? 0.0f : static_cast<float>(y);
  }
  float reciprocal(float x) const {
    const double y = 1 / static_cast<double>(x) * (1 + quotient_error);
    return y < 0x1p-126 ? 0.0f : static_cast<float>(y);
  }
};

struct Errors {
  double absolute = 0;  ///< of values up to 1; of larger ones relative
  double relative = 0;
};

/// Of f(x) over x in [low, high] against `exact`, in 2^-23.
template <class F, class Exact>
Errors worst_errors(double low, double high, const F& f, const Exact& exact) {
  Errors worst;
  constexpr int kSteps = 20000;
  for (int i = 0; i <= kSteps; ++i) {
    const float x = static_cast<float>(low + (high - low) * i / kSteps);
    const double expected = exact(static_cast<double>(x));
    for (const double power : {-0x1p-22, 0x1p-22})
      for (const double quotient : {-0x1p-23, 0x1p-23}) {
        const double error = std::abs(f(x, WorstFunctions{power, quotient}) - expected) * 0x1p23;
        worst.absolute = std::max(worst.absolute, error / std::max(1.0, std::abs(expected)));
        worst.relative = std::max(worst.relative, error / std::abs(expected));
      }
  }
  return worst;
}

double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double exact_gelu(double x) { return x * exact_sigmoid(elementwise::gelu_argument(x)); }

TEST_CASE(
    "sigmoid by the card's approximations stays within 3 ulp of 1, and relatively within 2^-17") {
  const auto f = [](float x, const WorstFunctions& functions) {
    return cuda::quick_sigmoid(x, functions);
  };
  const Errors errors = worst_errors(-80, 80, f, exact_sigmoid);
  MESSAGE("worst error: " << errors.absolute << " ulp of 1, relative " << errors.relative
                          << " * 2^-23");
  CHECK(errors.absolute <= 3);
  CHECK(errors.relative <= 64);
}

TEST_CASE("gelu by the card's approximations stays within 4 ulp of the larger of 1 and its value") {
  const auto f = [](float x, const WorstFunctions& functions) {
    return x * cuda::quick_sigmoid(elementwise::gelu_argument(Real<float>(x)).v, functions);
  };
  const Errors errors = worst_errors(-6, 12, f, exact_gelu);
  MESSAGE("worst error: " << errors.absolute << " ulp, relative " << errors.relative << " * 2^-23");
  CHECK(errors.absolute <= 4);
  CHECK(errors.relative <= 64);
}

TEST_CASE("NaN and infinities go through the approximations as through the formulas") {
  const auto sigmoid = [](float x) { return cuda::sigmoid(Real<float>(x)).v; };
  CHECK(sigmoid(INFINITY) == 1);
  CHECK(sigmoid(-INFINITY) == 0);
  CHECK(sigmoid(1e30f) == 1);
  CHECK(sigmoid(-1e30f) == 0);
  CHECK(sigmoid(0) == 0.5f);
  CHECK(std::isnan(sigmoid(NAN)));
  const auto gelu = [](float x) { return elementwise::gelu(Real<float>(x)).v; };
  CHECK(gelu(INFINITY) == INFINITY);
  CHECK(gelu(1e30f) == 1e30f);
  CHECK(gelu(-1e30f) == 0);
  CHECK(gelu(0) == 0);
  CHECK(std::isnan(gelu(NAN)));
  CHECK(std::isnan(gelu(-INFINITY)) == std::isnan(elementwise::gelu(-INFINITY)));
}

}  // namespace
}  // namespace alpa::approximate_test
