#include <doctest/doctest.h>

#include "kernel_call.h"
#include "kernels/cpu/kernels.h"

namespace alpa::convolution_test {
namespace {

using namespace testing;

using Ints = std::vector<std::int64_t>;

/// The same bits with 1, 2 and 3 threads.
void check_threads(const KernelDef& kernel, const std::vector<HostTensor>& in,
                   const HostTensor& out) {
  const Attributes attributes{{"stride", Ints{1, 2}},
                              {"dilation", Ints{1, 1}},
                              {"padding", Ints{1, 1, 1, 0}},
                              {"groups", std::int64_t{1}},
                              {"extents", Ints{3, 3}}};
  const auto run = [&](int threads) {
    return run_kernel(kernel, in, {out}, {.attributes = attributes, .threads = threads});
  };
  const auto first = run(1);
  CHECK(difference(first[0], std::vector<double>(out.type.elements(), 0.0)) > 0);
  for (int threads : {2, 3}) CHECK(run(threads) == first);
}

TEST_CASE("convolutions and their gradients do not depend on threads") {
  for (DType dtype : {f32, bf16})
    for (std::int64_t images : {2, 5, 34}) {  // too few for oneDNN; enough; an uneven share
      CAPTURE(images);
      CAPTURE(std::string(name_of(dtype)));
      const HostTensor x = random_tensor({dtype, {images, 7, 9, 16}}, 1),
                       kernel = random_tensor({dtype, {3, 3, 16, 32}}, 2),
                       y = random_tensor({dtype, {images, 7, 4, 32}}, 3);
      check_threads(cpu::conv2d, {x, kernel}, y);
      check_threads(cpu::conv2d_grad_x, {y, kernel}, x);
      check_threads(cpu::conv2d_grad_kernel, {x, y}, kernel);
    }
}

}  // namespace
}  // namespace alpa::convolution_test
