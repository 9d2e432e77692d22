// src/runtime/host_arenas.cc — arenas in host memory, and measurement of the bytes written
#include "host_arenas.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <new>

#include "alpa/base/error.h"
#include "arena_guard.h"

namespace alpa::runtime {
namespace {

constexpr std::align_val_t kAlignment{64};

/// The byte that fills unwritten memory: a float of such bytes is a NaN that no arithmetic
/// produces.
constexpr std::byte kUntouched{0xff};
constexpr std::int64_t kLargestElement = 8;

/// Bytes kept beyond the planned ones, so that a write past the end shows
/// instead of harming others.
constexpr std::int64_t kBeyond = 4096;

/// Asks for large pages, which the system may refuse. With them, parameters are read up to 1.3
/// times as fast, token by token.
void ask_for_large_pages(std::byte* block, std::size_t bytes) {
  constexpr std::uintptr_t kPage = 4096;
  const std::uintptr_t begin =
                           (reinterpret_cast<std::uintptr_t>(block) + kPage - 1) / kPage * kPage,
                       end = (reinterpret_cast<std::uintptr_t>(block) + bytes) / kPage * kPage;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

/// One past the highest byte that was written. Reads memory that
/// AddressSanitizer may hold for dead.
__attribute__((no_sanitize_address)) std::int64_t highest_written(const std::byte* block,
                                                                  std::int64_t bytes) {
  while (bytes > 0 && block[bytes - 1] == kUntouched) --bytes;
  return bytes;
}

}  // namespace

HostArenas::~HostArenas() {
  for (std::size_t i = 0; i < arenas.size(); ++i) {
    mark_alive(arenas[i], allocated_[i]);
    ::operator delete(arenas[i], kAlignment);
  }
}

std::int64_t HostArenas::allocated_bytes(std::int64_t bytes) { return bytes + kBeyond; }

bool HostArenas::add(std::int64_t planned, std::int64_t least) {
  const auto size = static_cast<std::size_t>(allocated_bytes(std::max(planned, least)));
  auto* block = static_cast<std::byte*>(::operator new(size, kAlignment, std::nothrow));
  if (!block) return false;
  ask_for_large_pages(block, size);
  std::fill_n(block, size, kUntouched);
  planned_.push_back(planned);
  allocated_.push_back(static_cast<std::int64_t>(size));
  arenas.push_back(block);
  return true;
}

std::int64_t HostArenas::bytes_in_use(int rank) const {
  const std::int64_t written = highest_written(arenas[rank], allocated_[rank]);
  if (written > planned_[rank]) return written;
  // The last bytes of a negative NaN look untouched, the other bytes of its element do not.
  return std::min(planned_[rank],
                  (written + kLargestElement - 1) / kLargestElement * kLargestElement);
}

void require_available(std::int64_t arena_bytes, std::int64_t other_bytes, int devices,
                       const HostMemory& memory) {
  if (arena_bytes + other_bytes <= memory.available_bytes) return;
  const std::string have =
      memory.group.empty()
          ? fmt::format("this machine has {} available", memory.available_bytes)
          : fmt::format("control group \"{}\" has {} left", memory.group, memory.available_bytes);
  fail(
      "no memory for a new state: {} bytes of arenas, and {} more for threads and temporary "
      "buffers, but {}; use more micro-batches, a smaller batch or a memory budget, "
      "drop other states, or {}",
      (devices == 1 ? "1 device needs " : fmt::format("{} devices need ", devices)) +
          std::to_string(arena_bytes),
      other_bytes, have, memory.group.empty() ? "end other programs" : "raise the group's limit");
}

}  // namespace alpa::runtime
