// Tokens and experts on the CPU, beyond the case table: threads, places that do not exist.
#include <doctest/doctest.h>

#include "kernel_call.h"
#include "kernels/cpu/kernels.h"
#include "support/error_text.h"

namespace alpa::experts_test {
namespace {

using namespace testing;

constexpr std::int64_t kTokens = 400, kWidth = 130, kExperts = 5, kPlaces = 60;

/// Several choices share a place, others have none.
HostTensor places() {
  HostTensor tensor({i32, {2, kTokens, 2}});
  for (std::int64_t c = 0; c < tensor.type.elements(); ++c)
    tensor.put(c, static_cast<double>(c * 7919 % (kExperts * kPlaces + 40) - 40));
  return tensor;
}

const TensorType kHeld{bf16, {kExperts, 2, kPlaces, kWidth}}, kSent{bf16, {2, kTokens, kWidth}},
    kWeights{f32, {2, kTokens, 2}};

std::vector<HostTensor> dispatched(int threads) {
  return run_kernel(cpu::dispatch, {random_tensor(kSent, 1), places(), random_tensor(kWeights, 2)},
                    {HostTensor(kHeld)}, {.threads = threads});
}

std::vector<HostTensor> combined(int threads) {
  return run_kernel(cpu::combine, {random_tensor(kHeld, 3), places(), random_tensor(kWeights, 2)},
                    {HostTensor(kSent)}, {.threads = threads});
}

std::vector<HostTensor> multiplied(int threads) {
  return run_kernel(cpu::expert_products,
                    {random_tensor(kSent, 1), places(), random_tensor(kHeld, 3)},
                    {HostTensor(kWeights)}, {.threads = threads});
}

TEST_CASE(
    "tokens at places, their sums and products have the same bits for any number of threads") {
  for (const auto& run : {dispatched, combined, multiplied}) {
    const std::vector<HostTensor> one = run(1);
    CHECK(run(2) == one);
    CHECK(run(5) == one);
  }
}

TEST_CASE("a place that no expert has is an error that names it") {
  HostTensor wrong = places();
  wrong.put(3, kExperts * kPlaces);
  CHECK(error_of([&] {
          run_kernel(cpu::dispatch, {random_tensor(kSent, 1), wrong}, {HostTensor(kHeld)});
        }) == "place 300 is outside of those of 5 experts, 0 to 299; give a negative one for none");
}

}  // namespace
}  // namespace alpa::experts_test
