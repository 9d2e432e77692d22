#pragma once
/// Checksums of bytes: by libdeflate, or by zlib where alpa is built without it.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace alpa {

/// CRC-32 as zlib and gzip have it, continued from `sum`.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t sum = 0);
std::uint32_t crc32(std::string_view text);

/// CRC-32C (Castagnoli), as RFC 3720 has it; a byte at a time, for short texts.
std::uint32_t crc32c(std::string_view text);

/// Hash of all bytes, or, of more than 64 MiB, of 1,024 blocks of 64 KiB that are spread evenly.
std::uint64_t hash_of(std::span<const std::byte> bytes);

}  // namespace alpa
