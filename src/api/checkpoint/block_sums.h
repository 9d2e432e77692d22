#pragma once
/// Checksums of blocks of a file: a damaged byte is found without reading the rest.
#include <cstdint>

#include "src/base/checksum.h"

namespace alpa::checkpoint {

/// Bytes that one checksum covers.
inline constexpr std::int64_t kBlockBytes = 64 * 1024;

/// Blocks of so many bytes; the last may be shorter.
constexpr std::int64_t blocks_of(std::int64_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes;
}

}  // namespace alpa::checkpoint
