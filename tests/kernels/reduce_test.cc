#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "kernel_call.h"
#include "kernels/cpu/kernels.h"

namespace alpa::reduce_test {
namespace {

using namespace testing;

struct Case {
  Shape shape;
  std::vector<std::int64_t> axes;
};
const Case kCases[] = {{{}, {}},
                       {{5}, {0}},
                       {{5}, {}},
                       {{4, 3}, {0}},
                       {{4, 3}, {1}},
                       {{4, 3}, {0, 1}},
                       {{3, 4, 5}, {1}},
                       {{3, 4, 5}, {0, 2}},
                       {{2, 3, 4, 5}, {1, 3}},
                       {{2, 3, 4, 5}, {0, 2}},
                       {{100001}, {0}},
                       {{700, 33}, {0}},
                       {{33, 700}, {1}},
                       {{3, 2100}, {0}},
                       {{5, 1, 7}, {1}},
                       {{30000, 10}, {0}},
                       {{0, 3}, {0}},
                       {{3, 0}, {0}},
                       {{3, 0}, {1}},
                       {{2, 100, 1100}, {1}},
                       {{40, 3, 1100}, {0, 2}},
                       {{1, 1}, {0}}};

bool reduced(const Case& c, std::size_t d) {
  return std::find(c.axes.begin(), c.axes.end(), d) != c.axes.end();
}

Shape result_shape(const Case& c) {
  Shape shape;
  for (std::size_t d = 0; d < c.shape.size(); ++d)
    if (!reduced(c, d)) shape.push_back(c.shape[d]);
  return shape;
}

std::vector<double> naive(const Case& c, const HostTensor& x, bool sum) {
  const Shape shape = result_shape(c);
  std::vector<double> result(static_cast<std::size_t>(num_elements(shape)), sum ? 0 : -INFINITY);
  for_each_index(c.shape, [&](const Shape& index) {
    Shape kept;
    for (std::size_t d = 0; d < index.size(); ++d)
      if (!reduced(c, d)) kept.push_back(index[d]);
    double& r = result[static_cast<std::size_t>(flat_index(shape, kept))];
    const double value = x.get(flat_index(c.shape, index));
    r = sum ? r + value : std::fmax(r, value);
  });
  return result;
}

TEST_CASE("reductions equal the naive loop, with any number of threads alike") {
  unsigned seed = 0;
  for (const Case& c : kCases)
    for (DType dtype : {f32, bf16, f16, f64, i32, u8})
      for (bool sum : {true, false}) {
        if (sum && dtype == u8) continue;
        if (num_elements(c.shape) > 10000 && dtype != f32 && dtype != bf16) continue;
        const bool nothing = num_elements(c.shape) == 0;
        if (nothing && !is_floating(dtype)) continue;
        const HostTensor x = random_tensor({dtype, c.shape}, ++seed);
        const std::vector<double> expected = naive(c, x, sum);
        CAPTURE(to_string(x.type));
        CAPTURE(sum);
        std::vector<HostTensor> first;
        for (int threads : {1, 2, 3}) {
          const auto got = run_kernel(sum ? cpu::reduce<ReduceOp::sum> : cpu::reduce<ReduceOp::max>,
                                      {x}, {HostTensor({dtype, result_shape(c)})},
                                      {.attributes = {{"axes", c.axes}}, .threads = threads});
          if (threads == 1) first = got;
          CHECK(got == first);
          CHECK(difference(got[0], expected) <= std::max(epsilon(dtype), 1e-12));
        }
      }
}

TEST_CASE("the maximum of numbers with a NaN is NaN, of nothing the lowest number") {
  HostTensor x = random_tensor({f32, {50, 40}}, 1);
  x.put(33 * 40 + 17, NAN);
  for (std::int64_t axis : {0, 1}) {
    const auto got =
        run_kernel(cpu::reduce<ReduceOp::max>, {x}, {HostTensor({f32, {axis == 0 ? 40 : 50}})},
                   {.attributes = {{"axes", std::vector<std::int64_t>{axis}}}});
    for (std::int64_t i = 0; i < got[0].type.elements(); ++i)
      CHECK(std::isnan(got[0].get(i)) == (i == (axis == 0 ? 17 : 33)));
  }
  const Attributes axes{{"axes", std::vector<std::int64_t>{0}}};
  CHECK(run_kernel(cpu::reduce<ReduceOp::max>, {HostTensor({i32, {0}})}, {HostTensor({i32, {}})},
                   {.attributes = axes})[0]
            .get(0) == std::numeric_limits<std::int32_t>::min());
}

TEST_CASE("the sum of ten million equal floats is exact to rounding") {
  HostTensor x({f32, {10000000}});
  for (std::int64_t i = 0; i < x.type.elements(); ++i) x.put_raw(i, 0.1f);
  const auto got = run_kernel(cpu::reduce<ReduceOp::sum>, {x}, {HostTensor({f32, {}})},
                              {.attributes = {{"axes", std::vector<std::int64_t>{0}}}});
  CHECK(got[0].get(0) == static_cast<float>(1e7 * static_cast<double>(0.1f)));
}

}  // namespace
}  // namespace alpa::reduce_test
