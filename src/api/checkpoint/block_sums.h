#pragma once
/// Checksums of blocks of a file: a damaged byte is found without reading the rest.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace alpa::checkpoint {

/// Bytes that one checksum covers.
inline constexpr std::int64_t kBlockBytes = 64 * 1024;

/// CRC-32 as zlib and gzip have it.
std::uint32_t crc32(std::span<const std::byte> bytes);
std::uint32_t crc32(std::string_view text);

/// Blocks of so many bytes; the last may be shorter.
constexpr std::int64_t blocks_of(std::int64_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes;
}

}  // namespace alpa::checkpoint
