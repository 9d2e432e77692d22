// src/api/checkpoint/block_sums.cc — CRC-32 by libdeflate: 14 GB/s where zlib reaches 4
#include "src/api/checkpoint/block_sums.h"

#include <libdeflate.h>

namespace alpa::checkpoint {

std::uint32_t crc32(std::span<const std::byte> bytes) {
  return libdeflate_crc32(0, bytes.data(), bytes.size());
}

std::uint32_t crc32(std::string_view text) { return crc32(std::as_bytes(std::span(text))); }

}  // namespace alpa::checkpoint
