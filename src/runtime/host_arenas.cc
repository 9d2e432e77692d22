#include "host_arenas.h"

#include <new>

#include "alpa/runtime/memory_plan.h"

namespace alpa {
namespace {

std::align_val_t alignment() {
  return std::align_val_t{static_cast<std::size_t>(memory_rules("cpu").alignment)};
}

}  // namespace

HostArenas::~HostArenas() {
  for (std::byte* block : blocks_) ::operator delete(block, alignment());
}

bool HostArenas::add(std::int64_t bytes) {
  auto* block =
      static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), alignment(), std::nothrow));
  if (!block) return false;
  blocks_.push_back(block);
  bytes_.push_back(bytes);
  arenas.push_back(block);
  return true;
}

}  // namespace alpa
