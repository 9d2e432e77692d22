// src/train/data_hash.cc — CRC-32 of what was read
#include "src/train/data_hash.h"

#include "alpa/base/error.h"
#include "src/base/checksum.h"
#include "src/base/fnv.h"

namespace alpa {

std::uint64_t hash_of(const BatchData& arrays) {
  std::uint64_t hash = 0;
  for (const auto& [name, array] : arrays) {
    const std::uint32_t content = crc32({array.data(), static_cast<std::size_t>(array.bytes())});
    hash = fnv1a(fmt::format("{} {} {:08x};", name, to_string(array.type()), content), hash);
  }
  return hash;
}

std::string order_text(std::optional<std::uint64_t> seed) {
  return seed ? fmt::format("shuffled with seed {}", *seed) : "not shuffled";
}

}  // namespace alpa
