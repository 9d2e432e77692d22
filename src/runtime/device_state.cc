// src/runtime/device_state.cc — memory of the devices
#include "alpa/runtime/device_state.h"

#include <new>
#include <utility>

#include "alpa/runtime/memory_plan.h"

namespace alpa {
namespace {
constexpr std::align_val_t kAlignment{static_cast<std::size_t>(kBufferAlignment)};
}

DeviceAllocator::~DeviceAllocator() {
  for (std::byte* block : blocks_) ::operator delete(block, kAlignment);
}

DeviceAllocator::DeviceAllocator(DeviceAllocator&& other) noexcept
    : blocks_(std::exchange(other.blocks_, {})), bytes_(std::exchange(other.bytes_, 0)) {}

std::byte* DeviceAllocator::allocate(std::int64_t bytes) {
  auto* block =
      static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), kAlignment, std::nothrow));
  if (!block) return nullptr;
  blocks_.push_back(block);
  bytes_ += bytes;
  return block;
}

}  // namespace alpa
