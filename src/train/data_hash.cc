// src/train/data_hash.cc — CRC-32 of what was read
#include "src/train/data_hash.h"

#include <libdeflate.h>

#include <algorithm>

#include "alpa/base/error.h"
#include "src/base/fnv.h"

namespace alpa {
namespace {

constexpr std::size_t kBlock = 1 << 16, kBlocks = 1024;

}  // namespace

std::uint64_t hash_of(const BatchData& arrays) {
  std::uint64_t hash = 0;
  for (const auto& [name, array] : arrays) {
    const std::uint32_t content =
        libdeflate_crc32(0, array.data(), static_cast<std::size_t>(array.bytes()));
    hash = fnv1a(fmt::format("{} {} {:08x};", name, to_string(array.type()), content), hash);
  }
  return hash;
}

std::uint64_t hash_of(std::span<const std::byte> bytes) {
  const bool all = bytes.size() <= kBlock * kBlocks;
  const std::size_t blocks = all ? (bytes.size() + kBlock - 1) / kBlock : kBlocks;
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::size_t at = all ? i * kBlock : (bytes.size() - kBlock) / (kBlocks - 1) * i;
    sum = libdeflate_crc32(sum, bytes.data() + at, std::min(kBlock, bytes.size() - at));
  }
  return fnv1a(fmt::format("{} {:08x}", bytes.size(), sum));
}

std::string order_text(std::optional<std::uint64_t> seed) {
  return seed ? fmt::format("shuffled with seed {}", *seed) : "not shuffled";
}

}  // namespace alpa
