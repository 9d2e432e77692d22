#include <doctest/doctest.h>

#include "kernel_call.h"
#include "kernels/cpu/kernels.h"

namespace alpa::convolution_test {
namespace {

using namespace testing;

using Ints = std::vector<std::int64_t>;

struct Shapes {
  std::int64_t images, height, width, channels, features, side, stride = 1, groups = 1;
};

void check_threads(const KernelDef& kernel, const Attributes& attributes,
                   const std::vector<HostTensor>& in, const HostTensor& out) {
  const auto run = [&](int threads) {
    return run_kernel(kernel, in, {out}, {.attributes = attributes, .threads = threads});
  };
  const auto one = run(1);
  CHECK(difference(one[0], std::vector<double>(out.type.elements(), 0.0)) > 0);
  for (int threads : {2, 3, 5, 8}) {
    CAPTURE(threads);
    CHECK(run(threads) == one);
  }
}

/// All passes with 1 to 8 threads; padding is unequal.
void check_shapes(const Shapes& s, DType dtype) {
  CAPTURE(s.images);
  CAPTURE(s.channels);
  CAPTURE(s.features);
  CAPTURE(s.side);
  CAPTURE(std::string(name_of(dtype)));
  const std::int64_t pad = s.side / 2, rows = (s.height + 2 * pad - s.side) / s.stride + 1,
                     columns = (s.width + pad - s.side) / 2 + 1;
  const Attributes attributes{{"stride", Ints{s.stride, 2}},
                              {"dilation", Ints{1, 1}},
                              {"padding", Ints{pad, pad, pad, 0}},
                              {"groups", s.groups},
                              {"extents", Ints{s.side, s.side}}};
  const HostTensor x = random_tensor({dtype, {s.images, s.height, s.width, s.channels}}, 1),
                   kernel = random_tensor(
                       {dtype, {s.side, s.side, s.channels / s.groups, s.features}}, 2),
                   y = random_tensor({dtype, {s.images, rows, columns, s.features}}, 3);
  check_threads(cpu::conv2d, attributes, {x, kernel}, y);
  check_threads(cpu::conv2d_grad_x, attributes, {y, kernel}, x);
  check_threads(cpu::conv2d_grad_kernel, attributes, {x, y}, kernel);
}

TEST_CASE("convolutions and their gradients do not depend on threads") {
  for (DType dtype : {f32, bf16}) {
    for (std::int64_t images : {2, 5, 34})  // too few for oneDNN; enough; an uneven share
      check_shapes({images, 7, 9, 16, 32, 3}, dtype);
    for (std::int64_t images : {1, 3, 4, 9}) {
      check_shapes({images, 13, 11, 3, 20, 5}, dtype);
      check_shapes({images, 14, 14, 48, 40, 1}, dtype);  // x is the matrix of windows
      check_shapes({images, 9, 7, 40, 72, 3, 2}, dtype);
      check_shapes({images, 6, 10, 24, 36, 3, 1, 3}, dtype);
    }
    for (std::int64_t channels : {1, 3, 4, 5, 6, 7, 8})  // less than a vector, or one
      check_shapes({4, 8, 8, channels, 16, 1, 2}, dtype);
    check_shapes({1, 28, 30, 80, 272, 3}, dtype);  // enough of all for sixteen tasks
    check_shapes({17, 5, 6, 6, 10, 3, 1, 2}, dtype);
  }
  check_shapes({2, 13, 11, 33, 50, 3}, f64);
  check_shapes({3, 13, 11, 33, 50, 3}, f16);
}

}  // namespace
}  // namespace alpa::convolution_test
