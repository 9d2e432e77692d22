// src/train/gpt2_words.cc — GPT-2's pattern of words, without a library of regular expressions
#include "gpt2_words.h"

#include <algorithm>
#include <iterator>

#include "unicode_ranges.h"

namespace alpa {
namespace {

constexpr std::uint32_t kNoCharacter = 0x110000;

template <std::size_t n>
bool within(const CodePointRange (&ranges)[n], std::uint32_t point) {
  const auto after = std::upper_bound(
      std::begin(ranges), std::end(ranges), point,
      [](std::uint32_t value, const CodePointRange& range) { return value < range.first; });
  return after != std::begin(ranges) && point <= std::prev(after)->last;
}

bool is_other(std::uint32_t point) {
  return !is_space(point) && !is_letter(point) && !is_number(point);
}

/// Bytes of the longest prefix whose characters are all of a kind.
std::size_t run_of(std::string_view text, bool (*kind)(std::uint32_t)) {
  std::size_t size = 0;
  while (size < text.size()) {
    const CodePoint point = first_code_point(text.substr(size));
    if (!kind(point.value)) break;
    size += point.bytes;
  }
  return size;
}

/// Bytes of spaces at the start: without the last one if a word follows, unless it is the only one.
std::size_t spaces(std::string_view text) {
  const std::size_t all = run_of(text, is_space);
  if (all == text.size()) return all;
  std::size_t last = 0;  // where the last one begins
  for (std::size_t size = 0; size < all; size += first_code_point(text.substr(size)).bytes)
    last = size;
  return last > 0 ? last : all;
}

}  // namespace

CodePoint first_code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  const CodePoint none{kNoCharacter, 1};
  if (first < 0xC2 || first > 0xF4 || text.size() < bytes) return none;
  std::uint32_t value = first & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return none;
    value = value << 6 | (byte(i) & 0x3F);
  }
  const std::uint32_t least = bytes == 2 ? 0x80 : bytes == 3 ? 0x800 : 0x10000;
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  return value < least || surrogate || value >= kNoCharacter ? none : CodePoint{value, bytes};
}

bool is_letter(std::uint32_t point) { return within(kLetterRanges, point); }
bool is_number(std::uint32_t point) { return within(kNumberRanges, point); }
bool is_space(std::uint32_t point) { return within(kSpaceRanges, point); }

std::size_t gpt2_word(std::string_view text) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(ending)) return ending.size();
  const std::size_t space = text.starts_with(' ') ? 1 : 0;
  for (auto* kind : {is_letter, is_number, is_other})
    if (const std::size_t run = run_of(text.substr(space), kind)) return space + run;
  return spaces(text);
}

}  // namespace alpa
