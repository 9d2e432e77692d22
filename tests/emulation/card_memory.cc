#include "card_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

namespace alpa::emulation {
namespace {

constexpr std::size_t kAlignment = 512;

[[maybe_unused]] constexpr std::size_t kPage = 4096;

[[maybe_unused]] std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

/// The key of all cards' memory; -1 where there are none. Threads begin without access.
[[maybe_unused]] int key() {
  static const int key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
  return key;
}

}  // namespace

#if defined(ALPA_EMULATION_ASAN) || defined(ALPA_EMULATION_TSAN)

void* map_card_memory(std::size_t bytes) {
  void* data = nullptr;
  if (posix_memalign(&data, kAlignment, bytes) != 0) return nullptr;
  std::memset(data, kPoison, bytes);
  return data;
}
void unmap_card_memory(void* data, std::size_t) { std::free(data); }
void enter_card() {}
void leave_card() {}

#else

// The allocation ends where a page without access begins.
void* map_card_memory(std::size_t bytes) {
  const std::size_t room = round_up(bytes, kAlignment), pages = round_up(room, kPage);
  void* const mapped =
      mmap(nullptr, pages + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const end = static_cast<char*>(mapped) + pages;
  std::memset(end - room, kPoison, room);
  mprotect(end, kPage, PROT_NONE);
  if (key() >= 0) pkey_mprotect(mapped, pages, PROT_READ | PROT_WRITE, key());
  return end - room;
}

void unmap_card_memory(void* data, std::size_t bytes) {
  const std::size_t room = round_up(bytes, kAlignment), pages = round_up(room, kPage);
  munmap(static_cast<char*>(data) + room - pages, pages + kPage);
}

void enter_card() {
  if (key() >= 0) pkey_set(key(), 0);
}
void leave_card() {
  if (key() >= 0) pkey_set(key(), PKEY_DISABLE_ACCESS);
}

#endif

}  // namespace alpa::emulation
