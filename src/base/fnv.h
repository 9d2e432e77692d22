#pragma once
/// A hash of bytes that is the same on every machine.
#include <cstdint>
#include <string_view>

namespace alpa {

/// FNV-1a, 64 bits, continued from `hash`.
constexpr std::uint64_t fnv1a(std::string_view bytes, std::uint64_t hash = 0xcbf29ce484222325u) {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return hash;
}

}  // namespace alpa
