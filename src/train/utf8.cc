// src/train/utf8.cc — characters of UTF-8 text, and what stands in the place of other bytes
#include "src/train/utf8.h"

#include <string>

#include "alpa/train/text.h"

namespace alpa {
namespace {

constexpr std::uint32_t kNoCharacter = 0x110000;
constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

/// Bytes of a character by its first one; 0 if that begins none.
std::size_t length_of(unsigned first) {
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  return first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
}

/// Bytes at the start that are, or begin, a character (Unicode 15, table 3-7).
std::size_t begun(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  unsigned least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  unsigned most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  std::size_t bytes = length_of(first) > 0 ? 1 : 0;
  while (bytes < length_of(first) && bytes < text.size() && byte(bytes) >= least &&
         byte(bytes) <= most)
    ++bytes, least = 0x80, most = 0xBF;
  return bytes;
}

}  // namespace

CodePoint first_code_point(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t bytes = length_of(first);
  if (bytes == 1) return {first, 1};
  if (bytes == 0 || begun(text) < bytes) return {kNoCharacter, 1};
  std::uint32_t value = first & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i)
    value = value << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
  return {value, bytes};
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t bytes = begun(text);
    const bool whole = bytes > 0 && bytes == length_of(static_cast<unsigned char>(text[0]));
    valid += whole ? text.substr(0, bytes) : kReplacement;
    text.remove_prefix(bytes > 0 ? bytes : 1);
  }
  return valid;
}

}  // namespace alpa
