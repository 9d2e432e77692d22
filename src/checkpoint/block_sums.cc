// src/checkpoint/block_sums.cc — CRC-32 by zlib
#include "src/checkpoint/block_sums.h"

#include <zlib.h>

namespace alpa::checkpoint {

std::uint32_t crc32(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::uint32_t crc32(std::string_view text) { return crc32(std::as_bytes(std::span(text))); }

}  // namespace alpa::checkpoint
