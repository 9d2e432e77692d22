#include "kernels/cuda/copy.h"

#include <algorithm>
#include <numeric>

#include "device_call.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/strided_copy.h"
#include "src/tensor/box_copy.h"

namespace alpa::copy_test {
namespace {

using namespace testing;

HostTensor copy_on_device(const HostTensor& x, const TensorType& y,
                          const std::vector<std::int64_t>& x_strides, std::size_t shift) {
  cuda::CopyLaunch launch;
  const auto y_strides = kernels::dense_strides(y.shape);
  REQUIRE(cuda::plan_copy(launch, static_cast<int>(size_of(y.dtype)), y.rank(), y.shape.data(),
                          x_strides.data(), y_strides.data()));
  const DeviceBuffer in(x, shift), out(static_cast<std::size_t>(y.bytes()), shift);
  check(cuda::run_copy(launch, in.data(), out.data(), nullptr));
  return out.download(y);
}

TEST_CASE("every permutation of a tensor is the CPU's, for every size of element and alignment") {
  if (no_device()) return;
  for (const Shape& shape :
       {Shape{70, 33}, Shape{128, 64}, Shape{3, 40, 50}, Shape{5, 1, 7, 16}, Shape{4, 0, 3},
        // tails of vectors of 4, 2 and 1, beside whole tiles and alone
        Shape{132, 268}, Shape{2, 130, 66}, Shape{129, 257}, Shape{1, 77}, Shape{257, 3},
        Shape{4, 4}})
    for (const DType dtype : {f64, f32, bf16, u8}) {
      std::vector<std::int64_t> permutation(shape.size());
      std::iota(permutation.begin(), permutation.end(), 0);
      do {
        const HostTensor x = random_tensor({dtype, shape}, 1);
        TensorType y{dtype, {}};
        std::vector<std::int64_t> strides;
        for (const std::int64_t d : permutation) {
          y.shape.push_back(shape[d]);
          strides.push_back(kernels::dense_strides(shape)[d]);
        }
        CallOptions options;
        options.attributes = {{"permutation", permutation}};
        const HostTensor expected = run_kernel(cpu::transpose, {x}, {HostTensor(y)}, options)[0];
        for (const std::size_t shift : {std::size_t{0}, std::size_t{8}, size_of(dtype)})
          CHECK(copy_on_device(x, y, strides, shift).bytes == expected.bytes);
      } while (std::next_permutation(permutation.begin(), permutation.end()));
    }
}

TEST_CASE("a box is transposed into a box, and nothing else changes") {
  if (no_device()) return;
  // of the target
  const Shape source = {2, 140, 136}, target = {2, 144, 148}, extent = {2, 132, 128};
  for (const DType dtype : {f64, f32, bf16, u8})
    for (const std::int64_t step : {0, 1, 2, 4}) {
      const HostTensor x = random_tensor({dtype, source}, 5),
                       before = random_tensor({dtype, target}, 6);
      const std::int64_t x_strides[] = {140 * 136, 1, 136}, y_strides[] = {144 * 148, 148, 1};
      HostTensor expected = before;
      for (std::int64_t b = 0; b < extent[0]; ++b)
        for (std::int64_t i = 0; i < extent[1]; ++i)
          for (std::int64_t j = 0; j < extent[2]; ++j)
            expected.put(step + b * y_strides[0] + i * y_strides[1] + j,
                         x.get(step + b * x_strides[0] + i + j * x_strides[2]));
      cuda::CopyLaunch launch;
      REQUIRE(cuda::plan_copy(launch, static_cast<int>(size_of(dtype)), 3, extent.data(), x_strides,
                              y_strides, step, step));
      REQUIRE(cuda::transposed_dim(launch) == 1);
      const DeviceBuffer in(x), out(before);
      check(cuda::run_copy(launch, in.data(), out.data(), nullptr));
      CHECK(out.download(before.type).bytes == expected.bytes);
    }
}

TEST_CASE("repeated dimensions are the CPU's broadcast") {
  if (no_device()) return;
  const Shape y = {6, 5, 24};
  const std::pair<Shape, std::vector<std::int64_t>> cases[] = {
      {{24}, {2}}, {{6}, {0}}, {{5, 1}, {1, 2}}, {{6, 24}, {0, 2}}, {{}, {}}, {{1, 1}, {0, 1}}};
  for (const auto& [shape, dims] : cases) {
    const HostTensor x = random_tensor({f32, shape}, 2);
    std::vector<std::int64_t> strides(3, 0);
    for (std::size_t d = 0; d < dims.size(); ++d)
      if (shape[d] != 1) strides[dims[d]] = kernels::dense_strides(shape)[d];
    CallOptions options;
    options.attributes = {{"dims", dims}};
    const HostTensor expected = run_kernel(cpu::broadcast, {x}, {HostTensor({f32, y})}, options)[0];
    CHECK(copy_on_device(x, {f32, y}, strides, 0).bytes == expected.bytes);
  }
}

TEST_CASE("a box goes from one tensor to another and nothing else changes") {
  if (no_device()) return;
  const Shape source = {9, 10, 32}, target = {6, 12, 40}, extent = {4, 7, 24};
  for (const std::int64_t step : {0, 3, 8})
    for (const DType dtype : {f32, bf16, u8}) {
      const Shape from = {2, 3, step}, to = {1, 5, step};
      const HostTensor x = random_tensor({dtype, source}, 3),
                       before = random_tensor({dtype, target}, 4);
      HostTensor expected = before;
      BoxCopy::make(source, from, target, to, extent)
          .copy(x.bytes.data(), expected.bytes.data(), size_of(dtype));
      cuda::CopyLaunch launch;
      REQUIRE(cuda::plan_copy(launch, static_cast<int>(size_of(dtype)), 3, extent.data(),
                              kernels::dense_strides(source).data(),
                              kernels::dense_strides(target).data(), flat_index(source, from),
                              flat_index(target, to)));
      const DeviceBuffer in(x), out(before);
      check(cuda::run_copy(launch, in.data(), out.data(), nullptr));
      CHECK(out.download(before.type).bytes == expected.bytes);
    }
}

TEST_CASE("constants are rounded as on the CPU") {
  if (no_device()) return;
  for (const DType dtype : kDTypes)
    for (const std::int64_t elements : {0, 1, 15, 1000, 4099})
      for (const double value : {0.1, -7.75, 300.0}) {
        const TensorType type{dtype, {elements}};
        CallOptions options;
        options.attributes = {{"value", value}};
        const DeviceBuffer out(static_cast<std::size_t>(type.bytes()), elements % 2 == 0 ? 0 : 8);
        check(cuda::run_fill(out.data(), dtype, elements, value, nullptr));
        CHECK(out.download(type).bytes ==
              run_kernel(cpu::constant, {}, {HostTensor(type)}, options)[0].bytes);
      }
}

TEST_CASE("an iota counts along its dimension from the local part's offset") {
  if (no_device()) return;
  for (const DType dtype : kDTypes)
    for (const int axis : {0, 1, 2}) {
      HostTensor y({dtype, {3, 4, 5}});
      y.offset = {2, 4, 5};
      y.global_shape = {6, 8, 10};
      CallOptions options;
      options.attributes = {{"axis", std::int64_t{axis}}};
      const std::int64_t inner = kernels::dense_strides(y.type.shape)[axis];
      const DeviceBuffer out(y.bytes.size());
      check(cuda::run_iota(out.data(), dtype, 60, y.type.shape[axis], inner, y.offset[axis],
                           nullptr));
      CHECK(out.download(y.type).bytes == run_kernel(cpu::iota, {}, {y}, options)[0].bytes);
    }
}

}  // namespace
}  // namespace alpa::copy_test
