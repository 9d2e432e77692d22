// src/base/checksum.cc — CRC-32 by libdeflate: 14 GB/s where zlib reaches 4
#include "src/base/checksum.h"

#include <fmt/core.h>

#if ALPA_HAS_DEFLATE
#include <libdeflate.h>
#else
#include <zlib.h>
#endif

#include <algorithm>
#include <array>

#include "src/base/fnv.h"

namespace alpa {
namespace {

constexpr std::size_t kBlock = 1 << 16, kBlocks = 1024;

/// Remainders of all bytes by Castagnoli's polynomial, bits reversed.
constexpr std::array<std::uint32_t, 256> kCastagnoli = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    table[byte] = byte;
    for (int bit = 0; bit < 8; ++bit)
      table[byte] = table[byte] >> 1 ^ (table[byte] & 1) * 0x82f63b78U;
  }
  return table;
}();

}  // namespace

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t sum) {
#if ALPA_HAS_DEFLATE
  return libdeflate_crc32(sum, bytes.data(), bytes.size());
#else
  if (bytes.empty()) return sum;  // zlib takes a null pointer for the start of a sum
  return static_cast<std::uint32_t>(
      ::crc32_z(sum, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
#endif
}

std::uint32_t crc32(std::string_view text) { return crc32(std::as_bytes(std::span(text))); }

std::uint32_t crc32c(std::string_view text) {
  std::uint32_t sum = ~0U;
  for (const char c : text)
    sum = sum >> 8 ^ kCastagnoli[(sum ^ static_cast<unsigned char>(c)) & 255];
  return ~sum;
}

std::uint64_t hash_of(std::span<const std::byte> bytes) {
  const bool all = bytes.size() <= kBlock * kBlocks;
  const std::size_t blocks = all ? (bytes.size() + kBlock - 1) / kBlock : kBlocks;
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::size_t at = all ? i * kBlock : (bytes.size() - kBlock) / (kBlocks - 1) * i;
    sum = crc32(bytes.subspan(at, std::min(kBlock, bytes.size() - at)), sum);
  }
  return fnv1a(fmt::format("{} {:08x}", bytes.size(), sum));
}

}  // namespace alpa
