#include "shared_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "block.h"
#include "sanitizers.h"

namespace alpa::cuda {
/// kernels/cuda/device.h declares it without a size.
alignas(4096) thread_local uint4 alpa_dynamic_shared[emulation::kSharedBytes / sizeof(uint4)];
}  // namespace alpa::cuda

namespace alpa::emulation {

extern __thread char shared_begin[16], shared_end[16];

namespace {

constexpr std::size_t kSharedPage = 4096;
static_assert(kSharedBytes % kSharedPage == 0);

/// Memory that no block of the past has touched, as ThreadSanitizer sees it: it forgets where pages
/// are mapped anew.
void renew(char* begin, char* end, unsigned char fill) {
#if defined(ALPA_EMULATION_TSAN)
  if (begin != end && mmap(begin, static_cast<std::size_t>(end - begin), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != begin)
    std::abort();
#endif
  std::memset(begin, fill, static_cast<std::size_t>(end - begin));
}

bool is_full_of(const char* page, unsigned char fill) {
  return static_cast<unsigned char>(*page) == fill &&
         std::memcmp(page, page + 1, kSharedPage - 1) == 0;
}

}  // namespace

void SharedMemory::renew(std::size_t number, unsigned char fill, std::size_t dynamic_bytes) {
  if (number == 0) used_ = {{shared_begin, shared_end}};
  if (number == 1) {
    used_.clear();
    for (char* page = shared_begin; page < shared_end; page += kSharedPage)
      if (!is_full_of(page, fill)) used_.push_back({page, page + kSharedPage});
  }
  for (const Range& range : used_) emulation::renew(range.begin, range.end, fill);
  char* const dynamic = reinterpret_cast<char*>(cuda::alpa_dynamic_shared);
  emulation::renew(dynamic, dynamic + (dynamic_bytes + kSharedPage - 1) / kSharedPage * kSharedPage,
                   fill);
}

}  // namespace alpa::emulation
