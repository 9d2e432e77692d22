// src/base/low_memory.cc — lets a program that runs out of memory end with a message
#include "src/base/low_memory.h"

#include <execinfo.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>

#include "alpa/base/error.h"

namespace alpa {
namespace {

/// Of the main stack: more than the deepest calls of planning take.
constexpr std::size_t kStackBytes = 1 << 20;
constexpr std::size_t kPageBytes = 4096;
/// For the stack, the library of unwinding, and the first objects.
constexpr std::int64_t kRoom = 8 << 20;

std::int64_t kibibytes(std::int64_t bytes) { return bytes / 1024; }

std::int64_t mapped_bytes() {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGE_SIZE);
}

/// Whether the main stack may take so much (`ulimit -s`).
bool has_stack(std::size_t bytes) {
  rlimit limit{};
  return getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur >= bytes;
}

/// Writes to every page: the stack then has them for good.
[[gnu::noinline]] void extend_stack() {
  [[maybe_unused]] volatile std::byte frame[kStackBytes];
  for (std::size_t i = 0; i < kStackBytes; i += kPageBytes) frame[i] = std::byte{0};
}

}  // namespace

std::optional<std::int64_t> address_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return static_cast<std::int64_t>(limit.rlim_cur);
}

std::string out_of_memory_text() {
  const std::optional<std::int64_t> limit = address_limit();
  if (!limit) return "out of memory; give the process more, or use a smaller batch or model";
  return fmt::format(
      "out of memory: the process may map {} kB (ulimit -v); raise that limit, or use a smaller "
      "batch or model",
      kibibytes(*limit));
}

void load_unwinder() {
  void* frame = nullptr;
  [[maybe_unused]] static const int loaded = backtrace(&frame, 1);
}

void prepare_for_low_memory() {
  const std::int64_t least = mapped_bytes() + kRoom;
  const std::int64_t limit = address_limit().value_or(least);
  require(
      limit >= least,
      "the process may map {} kB (ulimit -v), but its code and stack take {} kB; raise that limit",
      kibibytes(limit), kibibytes(least));
  if (has_stack(2 * kStackBytes)) extend_stack();
  load_unwinder();
}

}  // namespace alpa
