// What the case table does not show of cross entropy on CUDA.
#include "kernels/cuda/cross_entropy.h"

#include <cmath>

#include "device_run.h"
#include "src/ops/all_ops.h"

namespace alpa::cross_entropy_test {
namespace {

using namespace testing;

const Attributes kHard{{"smoothing", 0.0}}, kSmooth{{"smoothing", 0.25}};

HostTensor tensor_of(const TensorType& type, const std::vector<double>& values) {
  HostTensor tensor(type);
  for (std::size_t i = 0; i < values.size(); ++i)
    tensor.put(static_cast<std::int64_t>(i), values[i]);
  return tensor;
}

std::vector<HostTensor> sums_on(bool device, const HostTensor& x, const HostTensor& labels,
                                const Attributes& attributes) {
  const DType numbers = x.type.dtype == f64 ? f64 : f32;
  const std::vector<HostTensor> results(2, HostTensor({numbers, labels.type.shape}));
  if (device)
    return run_on_device(ops::cross_entropy, {x, labels}, results, {.attributes = attributes});
  return run_kernel(*ops::cross_entropy.cpu, {x, labels}, results, {.attributes = attributes});
}

TEST_CASE("rows with infinities, NaN or numbers far from 0 are what the CPU makes of them") {
  if (no_device()) return;
  for (const DType dtype : {f32, f64, bf16, f16})
    for (const std::int64_t width : {3, 700, 9000}) {
      const double special[] = {-INFINITY, INFINITY, NAN, 60000, -60000};
      HostTensor x = random_tensor({dtype, {8, width}}, 4), labels({i32, {8}});
      for (std::int64_t r = 0; r < 5; ++r) x.put(r * width + r * 7 % width, special[r]);
      for (std::int64_t c = 0; c < width; ++c) {
        x.put(5 * width + c, -INFINITY);
        x.put(6 * width + c, c == width - 1 ? NAN : -INFINITY);
        x.put(7 * width + c, 60000);
      }
      CAPTURE(name_of(dtype));
      CAPTURE(width);
      const auto got = sums_on(true, x, labels, kHard), expected = sums_on(false, x, labels, kHard);
      for (int i = 0; i < 2; ++i) CHECK(difference(got[i], values_of(expected[i])) < 1e-5);
      CHECK(got[0].get(1) == INFINITY);
      CHECK(std::isnan(got[0].get(2)));
      CHECK(got[0].get(5) == -INFINITY);
      CHECK(std::isnan(got[0].get(6)));
    }
}

TEST_CASE("parts of the classes, some of them short or empty, are what the CPU makes of them") {
  if (no_device()) return;
  constexpr std::int64_t kRows = 5, kClasses = 2050;
  const HostTensor labels = tensor_of({i32, {kRows}}, {0, 1024, 1025, 2049, -100});
  for (const auto& [first, width] :
       {std::pair<std::int64_t, std::int64_t>{0, 1025}, {1025, 1025}, {2047, 3}, {2050, 0}})
    for (const Attributes& attributes : {kHard, kSmooth}) {
      HostTensor x = random_tensor({bf16, {kRows, width}}, 9);
      x.offset = {0, first}, x.global_shape = {kRows, kClasses};
      CAPTURE(first);
      const auto got = sums_on(true, x, labels, attributes),
                 expected = sums_on(false, x, labels, attributes);
      for (int i = 0; i < 2; ++i) CHECK(difference(got[i], values_of(expected[i])) < 1e-5);
      if (width == 0) CHECK(got[0].get(0) == -INFINITY);
      const HostTensor numbers = random_tensor({f32, {kRows}}, 3, 1, 8);
      HostTensor dx(x.type);
      dx.offset = x.offset, dx.global_shape = x.global_shape;
      const std::vector<HostTensor> operands = {x, labels, numbers, numbers, numbers};
      CHECK(difference(run_on_device(ops::cross_entropy_grad, operands, {dx},
                                     {.attributes = attributes})[0],
                       values_of(run_kernel(*ops::cross_entropy_grad.cpu, operands, {dx},
                                            {.attributes = attributes})[0])) <= epsilon(bf16));
    }
}

TEST_CASE("a gradient that is not aligned like its logits has the same bits") {
  if (no_device()) return;
  constexpr std::int64_t kRows = 3, kWidth = 2311;
  const HostTensor x = random_tensor({bf16, {kRows, kWidth}}, 2),
                   labels = tensor_of({i32, {kRows}}, {7, 2310, 0}),
                   numbers = random_tensor({f32, {kRows}}, 5, 1, 8);
  const auto gradient = [&](std::size_t shift) {
    const DeviceBuffer logits(x), ids(labels), rows(numbers), dx(x.bytes.size(), shift);
    check(cuda::run_cross_entropy_grad({.dtype = bf16, .rows = kRows, .width = kWidth},
                                       {logits.data(), static_cast<const std::int32_t*>(ids.data()),
                                        rows.data(), rows.data(), rows.data(), dx.data()},
                                       nullptr));
    return dx.download(x.type);
  };
  CHECK(gradient(6).bytes == gradient(0).bytes);
}

}  // namespace
}  // namespace alpa::cross_entropy_test
