#include <cmath>

#include "kernels/cuda/reduce.h"

#include "device_call.h"
#include "kernels/cpu/kernels.h"

namespace alpa::reduce_test {
namespace {

using namespace testing;

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
                       {{3, 2, 20000}, {0, 2}},
                       // one row, one column, more columns than a block's
                       // threads, tails of every kind
                       {{1, 1001}, {1}},
                       {{1001, 1}, {0}},
                       {{1, 1001}, {0}},
                       {{5, 2049}, {1}},
                       {{3, 8199}, {1}},
                       {{1030, 7}, {1}},
                       {{70, 264}, {1}},
                       {{9, 1025}, {0}},
                       {{67, 520}, {0}},
                       {{12000, 3}, {0}},
                       {{5000, 8}, {0}},
                       {{33001}, {0}},
                       {{3, 50, 4, 60}, {1, 3}},
                       {{3, 50, 4, 61}, {1, 3}},
                       {{40, 3, 50, 8}, {0, 2}},
                       {{40, 3, 50, 7}, {0, 2}}};

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
        const HostTensor sum =
            run_kernel(cpu::reduce<ReduceOp::sum>, {x}, {HostTensor(type)}, options)[0];
        CHECK(difference(reduce_on_device(x, c.axes, ReduceOp::sum, type, shift), values_of(sum)) <=
              bound(dtype));
        const HostTensor max =
            run_kernel(cpu::reduce<ReduceOp::max>, {x}, {HostTensor(type)}, options)[0];
        CHECK(reduce_on_device(x, c.axes, ReduceOp::max, type, shift).bytes == max.bytes);
      }
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

/// A few large numbers among small ones that f32 loses beside them. The large ones cancel.
HostTensor cancelling(const TensorType& type) {
  HostTensor x(type);
  const std::int64_t elements = type.elements();
  for (std::int64_t i = 0; i < elements; ++i) x.put(i, std::ldexp(1.0, -13));
  for (std::int64_t i = 0; i + 48 < elements; i += 97) x.put(i, 4096), x.put(i + 48, -4096);
  return x;
}

TEST_CASE(
    "a sum of bf16 or f16 is within 3/2^24 of the sum of magnitudes, "
    "of f32 a rounding from the exact one, however long") {
  if (no_device()) return;
  for (const DType dtype : {bf16, f16, f32})
    for (const auto& [shape, axes] : {Case{{1 << 17}, {0}}, Case{{4, 1 << 13}, {1}},
                                      Case{{1 << 13, 8}, {0}}, Case{{1 << 12, 3}, {0}}})
      for (const std::size_t shift : {0, 8}) {
        CAPTURE(name_of(dtype));
        CAPTURE(to_string(shape));
        CAPTURE(shift);
        const HostTensor x = cancelling({dtype, shape});
        const bool lines = axes[0] + 1 == x.type.rank();
        const Shape kept = kept_shape({shape, axes});
        const std::int64_t results = TensorType{f64, kept}.elements(), all = x.type.elements();
        std::vector<double> exact(results), magnitude(results);
        for (std::int64_t i = 0; i < all; ++i) {
          const std::int64_t result = lines ? i / (all / results) : i % results;
          exact[result] += x.get(i);  // whole multiples of 2^-13 below 2^40
          magnitude[result] += std::abs(x.get(i));
        }
        const HostTensor y = reduce_on_device(x, axes, ReduceOp::sum, {f32, kept}, shift);
        for (std::int64_t r = 0; r < results; ++r)
          CHECK(std::abs(y.get(r) - exact[r]) <=
                std::ldexp(std::abs(exact[r]), -24) +
                    (dtype == f32 ? 0 : 3 * std::ldexp(magnitude[r], -24)));
      }
}

TEST_CASE("between packs sums are carried in double: a long share loses no more than a short one") {
  if (no_device()) return;
  const std::int64_t lines = 2048, length = 4096;  // a warp per line, 16 packs for every thread
  HostTensor x({bf16, {lines, length}});
  const double small = std::ldexp(0.9375, -15);  // eight of them vanish beside 4096 in f32
  for (std::int64_t i = 0; i < lines * length; ++i)
    x.put(i, i % length == 0 ? 4096 : i % length == 8 ? -4096 : small);
  const HostTensor y = reduce_on_device(x, {1}, ReduceOp::sum, {f32, {lines}});
  for (std::int64_t r = 0; r < lines; ++r)
    CHECK(std::abs(y.get(r) - (length - 2) * small) <= 3 * std::ldexp(2 * 4096 + 1, -24));
}

TEST_CASE("a reduction gives the same bits every time") {
  if (no_device()) return;
  for (const DType dtype : {f32, bf16})
    for (const auto& [shape, axes] :
         {Case{{600, 500}, {0, 1}}, Case{{600, 500}, {0}}, Case{{60, 5000}, {1}},
          Case{{9000, 24}, {0}}, Case{{301, 77}, {0}}})
      for (const std::size_t shift : {0, 8}) {
        const HostTensor x = random_tensor({dtype, shape}, 7);
        const TensorType y{f32, kept_shape({shape, axes})};
        const HostTensor first = reduce_on_device(x, axes, ReduceOp::sum, y, shift);
        for (int i = 0; i < 2; ++i)
          CHECK(reduce_on_device(x, axes, ReduceOp::sum, y, shift).bytes == first.bytes);
      }
}

}  // namespace
}  // namespace alpa::reduce_test
