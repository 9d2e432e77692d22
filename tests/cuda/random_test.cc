#include "kernels/cuda/random.h"

#include "device_call.h"
#include "kernels/cpu/kernels.h"

namespace alpa::random_test {
namespace {

using namespace testing;
using cuda::Distribution;

constexpr StepContext kStep{.seed = 0x1234567890abcdef, .step = 5, .micro_batch = 2};

HostTensor draw_on_device(Distribution distribution, const HostTensor& y, double a, double b,
                          std::size_t shift = 0) {
  cuda::RandomLaunch launch;
  REQUIRE(cuda::plan_random(launch, distribution, y.type.dtype, 42, a, b, y.type.rank(),
                            y.type.shape.data(), y.offset.data(), y.global_shape.data()));
  const cuda::StepNumbers step{kStep.seed, kStep.step, kStep.micro_batch};
  const DeviceBuffer on_device(sizeof step), out(y.bytes.size(), shift);
  check(cudaMemcpy(on_device.data(), &step, sizeof step, cudaMemcpyHostToDevice));
  check(cuda::run_random(launch, static_cast<const cuda::StepNumbers*>(on_device.data()),
                         out.data(), nullptr));
  return out.download(y.type);
}

TEST_CASE(
    "the device draws the CPU's numbers for any part of a tensor, to one rounding in the last "
    "place") {
  if (no_device()) return;
  struct Part {
    Shape shape, offset, whole;
  };
  const Part parts[] = {{{1000}, {0}, {1000}},
                        {{7}, {3}, {100}},
                        {{16, 24}, {0, 0}, {16, 24}},
                        {{5, 7}, {3, 2}, {11, 13}},
                        {{4, 3, 8}, {0, 3, 0}, {4, 9, 8}},
                        {{2, 3, 4, 5}, {1, 0, 2, 5}, {4, 6, 8, 10}},
                        {{}, {}, {}},
                        {{3, 0}, {0, 0}, {3, 5}},
                        {{6, 1}, {0, 2}, {6, 5}}};
  for (const Part& part : parts)
    for (const DType dtype : {f32, f64, bf16, f16})
      for (const Distribution distribution : {Distribution::uniform, Distribution::normal}) {
        CAPTURE(to_string(part.shape));
        CAPTURE(name_of(dtype));
        HostTensor y({dtype, part.shape});
        y.offset = part.offset, y.global_shape = part.whole;
        CallOptions options;
        options.attributes = {{"stream", std::int64_t{42}}, {"a", -0.5}, {"b", 1.75}};
        options.step = kStep;
        const bool normal = distribution == Distribution::normal;
        const HostTensor expected =
            run_kernel(normal ? cpu::random_normal : cpu::random_uniform, {}, {y}, options)[0];
        for (const std::size_t shift : {0, 8})
          CHECK(difference(draw_on_device(distribution, y, -0.5, 1.75, shift),
                           values_of(expected)) <= epsilon(dtype));
      }
}

}  // namespace
}  // namespace alpa::random_test
