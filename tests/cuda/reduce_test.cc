#include "kernels/cuda/reduce.h"

#include "device_call.h"
#include "kernels/cpu/kernels.h"

namespace alpa {
namespace {

using namespace testing;
using cuda::ReduceOp;

HostTensor reduce_on_device(const HostTensor& x, const std::vector<std::int64_t>& axes, ReduceOp op,
                            TensorType y, std::size_t shift = 0) {
  const auto reduced = std::make_unique<bool[]>(x.type.shape.size() + 1);
  for (std::int64_t a : axes) reduced[a] = true;
  cuda::ReduceLaunch launch;
  REQUIRE(cuda::plan_reduce(launch, op, x.type.dtype, y.dtype, x.type.rank(), x.type.shape.data(),
                            reduced.get()));
  const DeviceBuffer in(x, shift), out(static_cast<std::size_t>(y.bytes()), shift);
  const DeviceBuffer workspace(static_cast<std::size_t>(cuda::reduce_workspace_bytes(launch)));
  check(cuda::run_reduce(launch, in.data(), out.data(), workspace.data(), nullptr));
  return out.download(y);
}

struct Case {
  Shape shape;
  std::vector<std::int64_t> axes;
};
const Case kCases[] = {{{5}, {0}},
                       {{1}, {0}},
                       {{7, 3}, {1}},
                       {{7, 3}, {0}},
                       {{33, 64}, {1}},
                       {{64, 33}, {0}},
                       {{3, 5000}, {1}},
                       {{5000, 24}, {0}},
                       {{5000, 3}, {0}},
                       {{40000}, {0}},
                       {{9, 4000}, {0, 1}},
                       {{4, 6, 8}, {0, 2}},
                       {{4, 6, 9}, {1}},
                       {{6, 5, 7, 3}, {1, 3}},
                       {{6, 5, 8, 16}, {0, 2}},
                       {{3, 1, 70}, {0, 1}},
                       {{2, 300, 40}, {1}},
                       {{2, 130, 130}, {0}},
                       {{8, 0}, {1}},
                       {{0, 8}, {1}},
                       {{4, 4}, {}},
                       {{12, 200, 8}, {0, 2}},
                       {{200, 300}, {0, 1}},
                       {{3, 2, 20000}, {0, 2}}};

/// A rounding of the type, or of sums of 40 000 doubles.
double bound(DType dtype) { return dtype == f64 ? 1e-12 : epsilon(dtype); }

Shape kept_shape(const Case& c) {
  Shape shape;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(c.shape.size()); ++d)
    if (std::find(c.axes.begin(), c.axes.end(), d) == c.axes.end()) shape.push_back(c.shape[d]);
  return shape;
}

TEST_CASE("sums and maxima on the device are the CPU's for every type, shape and alignment") {
  if (no_device()) return;
  for (const Case& c : kCases)
    for (const DType dtype : kDTypes)
      for (const std::size_t shift : {0, 8}) {
        CAPTURE(to_string(c.shape));
        CAPTURE(name_of(dtype));
        CAPTURE(shift);
        const HostTensor x = random_tensor({dtype, c.shape}, 3);
        const TensorType type{dtype, kept_shape(c)};
        CallOptions options;
        options.attributes = {{"axes", c.axes}};
        const HostTensor sum = run_kernel(cpu::reduce_sum, {x}, {HostTensor(type)}, options)[0];
        CHECK(difference(reduce_on_device(x, c.axes, ReduceOp::sum, type, shift), values_of(sum)) <=
              bound(dtype));
        const HostTensor max = run_kernel(cpu::reduce_max, {x}, {HostTensor(type)}, options)[0];
        CHECK(reduce_on_device(x, c.axes, ReduceOp::max, type, shift).bytes == max.bytes);
      }
}

TEST_CASE("a mean is the sum over the number of elements") {
  if (no_device()) return;
  const HostTensor x = random_tensor({f32, {300, 40}}, 5);
  std::vector<double> expected(40);
  for (std::int64_t i = 0; i < 300 * 40; ++i) expected[i % 40] += x.get(i) / 300;
  CHECK(difference(reduce_on_device(x, {0}, ReduceOp::mean, {f32, {40}}), expected) < 1e-6);
  const HostTensor nothing({f32, {2, 0}});
  CHECK(std::isnan(reduce_on_device(nothing, {1}, ReduceOp::mean, {f32, {2}}).get(1)));
}

TEST_CASE("a maximum is NaN if one element is, wherever it stands") {
  if (no_device()) return;
  for (const std::int64_t where : {0, 17, 8999}) {
    HostTensor x = random_tensor({f32, {9000}}, 6);
    x.put(where, NAN);
    CHECK(std::isnan(reduce_on_device(x, {0}, ReduceOp::max, {f32, {}}).get(0)));
    x.type.shape = {90, 100};
    CHECK(std::isnan(reduce_on_device(x, {0}, ReduceOp::max, {f32, {100}}).get(where % 100)));
  }
}

TEST_CASE("a reduction gives the same bits every time") {
  if (no_device()) return;
  const HostTensor x = random_tensor({f32, {600, 500}}, 7);
  const HostTensor first = reduce_on_device(x, {0, 1}, ReduceOp::sum, {f32, {}});
  for (int i = 0; i < 3; ++i)
    CHECK(reduce_on_device(x, {0, 1}, ReduceOp::sum, {f32, {}}).bytes == first.bytes);
}

}  // namespace
}  // namespace alpa
