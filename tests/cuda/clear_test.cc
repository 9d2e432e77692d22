#include "kernels/cuda/clear.h"
#include "kernels/cuda/update.h"

#include <algorithm>
#include <deque>

#include "device_call.h"
#include "kernels/cuda/publish.h"

namespace alpa::clear_test {
namespace {

using namespace testing;

TEST_CASE("stretches of every length and number are cleared, and nothing beside them") {
  if (no_device()) return;
  for (const int count : {0, 1, 5, cuda::kMaxTableTensors, cuda::kMaxTableTensors + 3}) {
    std::deque<DeviceBuffer> buffers;
    std::vector<cuda::ClearedBytes> stretches;
    for (int i = 0; i < count; ++i) {
      const std::int64_t bytes = count > 5 ? i % 40 : i * 32'768 + 15 * i;
      buffers.emplace_back(static_cast<std::size_t>(bytes));
      stretches.push_back({buffers.back().data(), bytes});
    }
    check(cuda::run_clear(stretches.data(), count, nullptr));
    for (int i = 0; i < count; ++i) {
      const HostTensor found = buffers[i].download({u8, {stretches[i].bytes}});
      CHECK(std::all_of(found.bytes.begin(), found.bytes.end(),
                        [](std::byte b) { return b == std::byte{0}; }));
    }
  }
}

TEST_CASE("elements of every size and number reach mapped host memory in one launch") {
  if (no_device()) return;
  for (const int count : {0, 1, 7, cuda::kMaxPublished, cuda::kMaxPublished + 2}) {
    std::deque<DeviceBuffer> buffers;
    std::vector<cuda::PublishedElement> elements;
    std::vector<HostTensor> expected;
    std::byte *mapped = nullptr, *device = nullptr;
    check(cudaHostAlloc(reinterpret_cast<void**>(&mapped), 8 * (count + 1), cudaHostAllocMapped));
    check(cudaHostGetDevicePointer(reinterpret_cast<void**>(&device), mapped, 0));
    std::fill_n(mapped, 8 * (count + 1), std::byte{0xee});
    for (int i = 0; i < count; ++i) {
      constexpr DType kTypes[] = {u8, bf16, f32, f64, f16, i32};
      expected.push_back(random_tensor({kTypes[i % 6], {}}, i));
      buffers.emplace_back(expected.back());
      elements.push_back({buffers.back().data(), device + 8 * i, expected.back().type.bytes()});
    }
    check(cuda::run_publish(elements.data(), count, nullptr));
    check(cudaDeviceSynchronize());
    for (int i = 0; i <= count; ++i) {
      const std::int64_t bytes = i < count ? elements[i].bytes : 0;
      if (bytes > 0)
        CHECK(std::equal(mapped + 8 * i, mapped + 8 * i + bytes, expected[i].bytes.begin()));
      CHECK(std::all_of(mapped + 8 * i + bytes, mapped + 8 * i + 8,
                        [](std::byte b) { return b == std::byte{0xee}; }));
    }
    check(cudaFreeHost(mapped));
  }
}

}  // namespace
}  // namespace alpa::clear_test
