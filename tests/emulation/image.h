#pragma once
/// The machine code that the emulated run-time compiler hands out: a shared object behind a header.
#include <cstdint>

namespace alpa::emulation {

struct ImageHeader {
  char magic[24] = "alpa emulated kernel 1";
  std::uint64_t bytes = 0;  ///< of the shared object that follows
};

}  // namespace alpa::emulation
