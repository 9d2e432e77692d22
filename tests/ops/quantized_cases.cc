// Rows of the case table for products with quantised kernels.
#include "cases.h"

namespace alpa::testing::cases {
namespace {

/// The number of a positive, normal or subnormal f16 at byte `at`.
double half_at(const Tensor& kernel, std::int64_t n, std::int64_t b, std::int64_t at) {
  const int bits =
      static_cast<int>(kernel.at({n, b, at})) + 256 * static_cast<int>(kernel.at({n, b, at + 1}));
  const int exponent = bits >> 10, fraction = bits & 1023;
  return exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
}

/// Element e of block b of feature n, by the description of ggml's formats.
double element(const Tensor& kernel, std::int64_t n, std::int64_t b, std::int64_t e) {
  const std::int64_t bytes = kernel.shape[2];
  const double scale = half_at(kernel, n, b, 0);
  if (bytes == 34) {
    const double byte = kernel.at({n, b, 2 + e});
    return scale * (byte < 128 ? byte : byte - 256);
  }
  const int pair = static_cast<int>(kernel.at({n, b, bytes - 16 + e % 16}));
  const int number = e < 16 ? pair % 16 : pair / 16;
  return bytes == 20 ? scale * number + half_at(kernel, n, b, 2) : scale * (number - 8);
}

/// x [rows, in] or dy [rows, features] times the kernel, or its transpose.
Reference product(bool backward) {
  return [=](const std::vector<Tensor>& v) {
    const Tensor &x = v[0], &kernel = v[1];
    const std::int64_t features = kernel.shape[0], blocks = kernel.shape[1], terms = x.shape.back(),
                       results = backward ? blocks * 32 : features;
    Tensor y{x.shape, {}};
    y.shape.back() = results;
    for (std::int64_t row = 0; row < std::ssize(x.data) / terms; ++row)
      for (std::int64_t r = 0; r < results; ++r) {
        double sum = 0;
        for (std::int64_t t = 0; t < terms; ++t) {
          const std::int64_t n = backward ? t : r, i = backward ? r : t;
          sum += x.data[row * terms + t] * element(kernel, n, i / 32, i % 32);
        }
        y.data.push_back(sum);
      }
    return std::vector<Tensor>{y};
  };
}

}  // namespace

std::vector<Case> quantized_cases() {
  std::vector<Case> rows;
  const auto add = [&](bool backward, const Shape& of_rows, std::int64_t features,
                       std::int64_t blocks, std::int64_t bytes) {
    Shape x = of_rows;
    x.push_back(backward ? features : blocks * 32);
    const auto points = static_cast<double>(alpa::num_elements(of_rows) * features * blocks * 32);
    // Bytes up to 59 give scales up to 0.9.
    rows.push_back({backward ? &ops::quantized_matmul_grad : &ops::quantized_matmul,
                    {{{f32, x}, 0.5, 2}, {{u8, {features, blocks, bytes}}, 0, 59}},
                    product(backward),
                    2 * points});
  };
  for (const std::int64_t bytes : {34, 18, 20})
    for (const bool backward : {false, true}) {
      add(backward, {2, 3}, 5, 4, bytes);
      add(backward, {13}, 7, 2, bytes);
      add(backward, {}, 3, 1, bytes);
    }
  // More results than a panel has.
  add(false, {17}, 520, 2, 18);
  add(true, {17}, 7, 17, 18);
  return rows;
}

}  // namespace alpa::testing::cases
