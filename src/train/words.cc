// src/train/words.cc — patterns of words, without a library of regular expressions
#include "src/train/words.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>

#include "src/train/unicode_ranges.h"
#include "src/train/utf8.h"

namespace alpa {
namespace {

struct KnownPattern {
  WordPattern pattern;
  std::string_view regex;
};
constexpr KnownPattern kPatterns[] = {
    {WordPattern::gpt2,
     R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {WordPattern::llama3,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {WordPattern::qwen2,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

struct CodePointRange {
  std::uint32_t first, last;
};

/// The ranges of a table of unicode_ranges.h, "41-5a aa ".
template <const std::string_view& table>
consteval auto ranges_of() {
  std::array<CodePointRange, std::ranges::count(table, ' ')> ranges{};
  auto range = ranges.begin();
  bool begun = false;  // by its first point, which may be the only one
  for (const char c : table) {
    if (c == ' ') {
      ++range, begun = false;
    } else if (c == '-') {
      range->last = 0, begun = true;
    } else {
      range->last =
          16 * range->last + static_cast<std::uint32_t>(c <= '9' ? c - '0' : c - 'a' + 10);
      if (!begun) range->first = range->last;
    }
  }
  return ranges;
}

template <const std::string_view& table>
bool within(std::uint32_t point) {
  static constexpr auto ranges = ranges_of<table>();
  const auto after = std::upper_bound(
      ranges.begin(), ranges.end(), point,
      [](std::uint32_t value, const CodePointRange& range) { return value < range.first; });
  return after != ranges.begin() && point <= std::prev(after)->last;
}

bool is_other(std::uint32_t point) {
  return !is_space(point) && !is_letter(point) && !is_number(point);
}

bool is_line_end(std::uint32_t point) { return point == '\r' || point == '\n'; }

/// Bytes of the longest prefix of at most `most` characters that are all of a kind.
std::size_t run_of(std::string_view text, bool (*kind)(std::uint32_t), std::size_t most = kAll) {
  std::size_t size = 0;
  for (; most > 0 && size < text.size(); --most) {
    const CodePoint point = first_code_point(text.substr(size));
    if (!kind(point.value)) break;
    size += point.bytes;
  }
  return size;
}

/// \s+(?!\S)|\s+: spaces at the start, without the last one if a word follows, unless it is the
/// only one.
std::size_t spaces(std::string_view text) {
  const std::size_t all = run_of(text, is_space);
  if (all == text.size()) return all;
  std::size_t last = 0;  // where the last one begins
  for (std::size_t size = 0; size < all; size += first_code_point(text.substr(size)).bytes)
    last = size;
  return last > 0 ? last : all;
}

std::size_t gpt2_word(std::string_view text) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(ending)) return ending.size();
  const std::size_t space = text.starts_with(' ') ? 1 : 0;
  for (auto* kind : {is_letter, is_number, is_other})
    if (const std::size_t run = run_of(text.substr(space), kind)) return space + run;
  return spaces(text);
}

/// Numbers are words already, so nothing follows spaces before one.
std::size_t gpt2_digits_word(std::string_view text) {
  const std::size_t blank = run_of(text, is_space);
  const bool number = blank < text.size() && is_number(first_code_point(text.substr(blank)).value);
  if (!number) return gpt2_word(text);
  return blank > 0 ? blank : first_code_point(text).bytes;
}

/// (?i:'s|'t|'re|'ve|'m|'ll|'d): its bytes; 0 if the text begins otherwise. U+017F, the long s, is
/// an s in another case.
std::size_t contraction(std::string_view text) {
  if (!text.starts_with('\'')) return 0;
  std::string letters;
  std::size_t ends[2] = {}, size = 1;
  while (letters.size() < 2 && size < text.size()) {
    const CodePoint point = first_code_point(text.substr(size));
    ends[letters.size()] = size += point.bytes;
    const bool upper = point.value >= 'A' && point.value <= 'Z';
    letters += point.value == 0x17F  ? 's'
               : point.value >= 0x80 ? '?'
                                     : static_cast<char>(upper ? point.value + 32 : point.value);
  }
  if (letters == "re" || letters == "ve" || letters == "ll") return ends[1];
  return !letters.empty() && std::string_view("stmd").find(letters[0]) != letters.npos ? ends[0]
                                                                                       : 0;
}

/// \s*[\r\n]+: bytes up to the last line's end among the spaces at the start; 0 if there is none.
std::size_t lines(std::string_view text) {
  const std::size_t last = text.substr(0, run_of(text, is_space)).find_last_of("\r\n");
  return last == text.npos ? 0 : last + 1;
}

/// Of Llama 3, and of Qwen2, where a number is a word.
std::size_t llama3_word(std::string_view text, std::size_t digits) {
  if (const std::size_t ending = contraction(text)) return ending;
  const CodePoint first = first_code_point(text);
  if (is_number(first.value)) return run_of(text, is_number, digits);
  // A character before letters belongs to them, except a line's end.
  const std::size_t before = is_letter(first.value) || is_line_end(first.value) ? 0 : first.bytes;
  if (const std::size_t run = run_of(text.substr(before), is_letter)) return before + run;
  const std::size_t space = text.starts_with(' ') ? 1 : 0;
  if (const std::size_t run = run_of(text.substr(space), is_other))
    return space + run + run_of(text.substr(space + run), is_line_end);
  const std::size_t whole_lines = lines(text);
  return whole_lines > 0 ? whole_lines : spaces(text);
}

}  // namespace

bool is_letter(std::uint32_t point) { return within<kLetterRanges>(point); }
bool is_number(std::uint32_t point) { return within<kNumberRanges>(point); }
bool is_space(std::uint32_t point) { return within<kSpaceRanges>(point); }

std::optional<WordPattern> find_pattern(std::string_view regex) {
  for (const KnownPattern& known : kPatterns)
    if (known.regex == regex) return known.pattern;
  return {};
}

std::size_t first_word(std::string_view text, WordPattern pattern) {
  switch (pattern) {
    case WordPattern::gpt2: return gpt2_word(text);
    case WordPattern::gpt2_digits: return gpt2_digits_word(text);
    case WordPattern::llama3: return llama3_word(text, 3);
    case WordPattern::qwen2: return llama3_word(text, 1);
  }
  return text.size();
}

}  // namespace alpa
