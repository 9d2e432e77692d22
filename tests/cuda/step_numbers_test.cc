#include "kernels/cuda/step_numbers.h"

#include "device_call.h"

namespace alpa::step_numbers_test {
namespace {

using namespace testing;

TEST_CASE("parts of any size are loaded one after the other, as the number on the device says") {
  if (no_device()) return;
  constexpr int kParts = 4;
  for (const std::int64_t bytes : {0, 1, 2, 7, 12, 40, 16 * 300, 256 * 1024 + 4}) {
    const HostTensor all = random_tensor({u8, {kParts, bytes}}, static_cast<int>(bytes));
    const DeviceBuffer parts(all), numbers(sizeof(cuda::StepNumbers));
    const cuda::StepNumbers first{.seed = 3, .step = 8};
    check(cudaMemcpy(numbers.data(), &first, sizeof first, cudaMemcpyHostToDevice));
    auto* const now = static_cast<cuda::StepNumbers*>(numbers.data());
    for (int part = 0; part < kParts; ++part) {
      const DeviceBuffer y(static_cast<std::size_t>(bytes));
      check(cuda::run_load_part(now, parts.data(), bytes, y.data(), nullptr));
      check(cuda::run_next_micro_batch(now, nullptr));
      const HostTensor found = y.download({u8, {bytes}});
      CHECK(std::equal(found.bytes.begin(), found.bytes.end(), all.bytes.begin() + part * bytes));
    }
    cuda::StepNumbers last;
    numbers.download(&last);
    CHECK(last.seed == 3);
    CHECK(last.step == 8);
    CHECK(last.micro_batch == kParts);
  }
}

}  // namespace
}  // namespace alpa::step_numbers_test
