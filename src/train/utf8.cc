// src/train/utf8.cc — characters of UTF-8 text, and what stands in the place of other bytes
#include "src/train/utf8.h"

#include <algorithm>
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

std::optional<std::uint32_t> first_composable(std::string_view text) {
  // Combining class 0 and NFC_Quick_Check Yes, by Unicode 14.
  static constexpr std::uint32_t kStable[][2] = {
      {0, 0x2ff},       {0x391, 0x3ce},   {0x400, 0x482},     {0x48a, 0x52f},
      {0x5d0, 0x5ea},   {0x620, 0x64a},   {0x2002, 0x2064},   {0x20a0, 0x20c0},
      {0x2190, 0x2328}, {0x232b, 0x2adb}, {0x3000, 0x3029},   {0x3041, 0x3096},
      {0x30a1, 0x30fe}, {0x3400, 0x4dbf}, {0x4e00, 0x9fff},   {0xac00, 0xd7a3},
      {0xfe0f, 0xfe0f}, {0xff01, 0xff5e}, {0x1f300, 0x1faff}, {kNoCharacter, kNoCharacter}};
  while (!text.empty()) {
    const CodePoint next = first_code_point(text);
    if (std::ranges::none_of(kStable, [&](const auto& range) {
          return range[0] <= next.value && next.value <= range[1];
        }))
      return next.value;
    text.remove_prefix(next.bytes);
  }
  return {};
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
