#pragma once
/// The shared memory of a host thread's blocks, full of `fill` when a block begins. Static shared
/// memory is thread-local memory of this library, where the linker puts it between the variables of
/// shared_begin.cc and shared_end.cc. A program's own kernels have theirs elsewhere.
#include <cstddef>
#include <vector>

namespace alpa::emulation {

class SharedMemory {
 public:
  /// Before each block of a launch, which is its `number`-th. From the second on, that is static
  /// memory in the pages that the first block wrote to. Called in an Unseen.
  void renew(std::size_t number, unsigned char fill, std::size_t dynamic_bytes);

 private:
  struct Range {
    char *begin, *end;  ///< multiples of a page
  };
  std::vector<Range> used_;  ///< by the launch
};

}  // namespace alpa::emulation
