// relu with its bits, and its gradient by them, element for element.
#include "kernels/cuda/relu_mask.h"

#include <cmath>
#include <limits>

#include "device_call.h"

namespace alpa::relu_mask_test {
namespace {

using namespace testing;

struct Size {
  std::int64_t rows, columns;
};
constexpr Size kSizes[] = {{1, 8}, {9, 24}, {3, 5000}, {70, 264}};
constexpr DType kTypes[] = {f32, bf16, f16, f64};

/// Random numbers, with a NaN, an infinity and zeros of both signs.
HostTensor values(DType dtype, const Size& size) {
  HostTensor z = random_tensor({dtype, {size.rows, size.columns}}, 5);
  z.put(1, std::numeric_limits<double>::quiet_NaN());
  z.put(2, std::numeric_limits<double>::infinity());
  z.put(3, 0.0);
  z.put(4, -0.0);
  return z;
}

bool bit(const HostTensor& bits, std::int64_t i) {
  return (static_cast<int>(bits.get(i / 8)) >> (i % 8) & 1) != 0;
}

TEST_CASE("relu with its bits is the formula, rounded after the bias, at any address") {
  if (no_device()) return;
  for (DType dtype : kTypes)
    for (const Size& size : kSizes)
      for (const bool biased : {false, true})
        for (const std::size_t shift : {std::size_t{0}, size_of(dtype)}) {
          CAPTURE(name_of(dtype));
          CAPTURE(size.columns);
          const HostTensor z = values(dtype, size),
                           bias = random_tensor({dtype, {size.columns}}, 6);
          const TensorType bits_type{u8, {size.rows, size.columns / 8}};
          const DeviceBuffer z_on(z, shift), bias_on(bias, shift),
              bits_on(static_cast<std::size_t>(bits_type.elements()));
          check(cuda::run_relu_mask(dtype, bits_type.elements(), biased ? bias_on.data() : nullptr,
                                    size.columns, z_on.data(), bits_on.data(), nullptr));
          const HostTensor got = z_on.download(z.type), bits = bits_on.download(bits_type);
          HostTensor sum(z.type);
          bool equal = true;
          for (std::int64_t i = 0; i < z.type.elements(); ++i) {
            sum.put(i, dtype == f64
                           ? z.get(i) + (biased ? bias.get(i % size.columns) : 0)
                           : static_cast<float>(z.get(i)) +
                                 (biased ? static_cast<float>(bias.get(i % size.columns)) : 0.0f));
            const double x = sum.get(i), y = got.get(i);
            equal = equal && (std::isnan(x) ? std::isnan(y) : y == (x > 0 ? x : 0)) &&
                    bit(bits, i) == (x > 0);
          }
          CHECK(equal);
        }
}

TEST_CASE("elements without a bit become 0, the others stay as they are") {
  if (no_device()) return;
  for (DType dtype : kTypes)
    for (const Size& size : kSizes)
      for (const std::size_t shift : {std::size_t{0}, size_of(dtype)}) {
        CAPTURE(name_of(dtype));
        CAPTURE(size.columns);
        const HostTensor x = values(dtype, size);
        HostTensor bits({u8, {size.rows, size.columns / 8}});
        for (std::int64_t i = 0; i < bits.type.elements(); ++i)
          bits.put(i, static_cast<double>(i * 37 % 256));
        const DeviceBuffer x_on(x, shift), bits_on(bits, shift);
        check(cuda::run_apply_relu_mask(dtype, bits.type.elements(), bits_on.data(), x_on.data(),
                                        nullptr));
        const HostTensor got = x_on.download(x.type);
        bool equal = true;
        for (std::int64_t i = 0; i < x.type.elements(); ++i) {
          const double from = x.get(i), to = got.get(i);
          equal = equal && (!bit(bits, i)      ? to == 0
                            : std::isnan(from) ? std::isnan(to)
                                               : to == from);
        }
        CHECK(equal);
      }
}

}  // namespace
}  // namespace alpa::relu_mask_test
