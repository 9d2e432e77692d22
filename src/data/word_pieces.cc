// src/data/word_pieces.cc — BERT's normal form of text, and words as pieces
#include "src/data/word_pieces.h"

#include <utf8proc.h>

#include <algorithm>

#include "alpa/data/text.h"
#include "src/data/utf8.h"

namespace alpa {
namespace {

/// First and last code points of blocks of Chinese characters, as BERT has them.
constexpr std::int32_t kChinese[][2] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                        {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                                        {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};

bool is_chinese(std::int32_t point) {
  return std::ranges::any_of(
      kChinese, [&](const auto& block) { return point >= block[0] && point <= block[1]; });
}

bool is_space(std::int32_t point) {
  const utf8proc_category_t category = utf8proc_category(point);
  return (point >= '\t' && point <= '\r') || point == 0x85 || category == UTF8PROC_CATEGORY_ZS ||
         category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

bool is_removed(std::int32_t point) {
  const utf8proc_category_t category = utf8proc_category(point);
  if (point == '\t' || point == '\n' || point == '\r') return false;
  return point == 0xFFFD || category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CO;
}

void append(std::int32_t point, std::string& text) {
  unsigned char bytes[4];
  const auto size = utf8proc_encode_char(point, bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

/// Calls `visit` for each code point of a text that is UTF-8.
template <class Visit>
void for_each_point(std::string_view text, Visit visit) {
  while (!text.empty()) {
    std::int32_t point = 0;
    const auto size = utf8proc_iterate(reinterpret_cast<const unsigned char*>(text.data()),
                                       std::ssize(text), &point);
    visit(point);
    text.remove_prefix(static_cast<std::size_t>(size));
  }
}

}  // namespace

std::string BertText::operator()(std::string_view text) const {
  std::string cleaned, result;
  for_each_point(valid_utf8(text), [&](std::int32_t point) {
    if (clean && is_removed(point)) return;
    if (clean && is_space(point)) point = ' ';
    const bool apart = chinese && is_chinese(point);
    if (apart) cleaned += ' ';
    append(point, cleaned);
    if (apart) cleaned += ' ';
  });
  for_each_point(unmarked ? decomposed(cleaned) : cleaned, [&](std::int32_t point) {
    if (unmarked && utf8proc_category(point) == UTF8PROC_CATEGORY_MN) return;
    append(lower ? utf8proc_tolower(point) : point, result);
    if (lower && point == 0x130) append(0x307, result);  // I with a dot, which small letters keep
  });
  return result;
}

std::vector<std::int32_t> WordPieces::encode(
    std::string_view word, const std::unordered_map<std::string, std::int32_t>& tokens) const {
  std::vector<std::size_t> bounds = {};  // of characters
  bool space = false;
  for_each_point(word, [&, at = std::size_t{0}](std::int32_t point) mutable {
    space = space || is_space(point);
    unsigned char bytes[4];
    bounds.push_back(at += static_cast<std::size_t>(utf8proc_encode_char(point, bytes)));
  });
  if (space) return {};
  if (std::ssize(bounds) > most_letters) return {unknown};
  std::vector<std::int32_t> pieces;
  for (std::size_t begin = 0; begin < word.size();) {
    const auto find = [&](std::size_t end) {
      return tokens.find((begin > 0 ? prefix : "") + std::string(word.substr(begin, end - begin)));
    };
    auto end = bounds.rbegin();
    while (end != bounds.rend() && *end > begin && find(*end) == tokens.end()) ++end;
    if (end == bounds.rend() || *end <= begin) return {unknown};
    pieces.push_back(find(*end)->second);
    begin = *end;
  }
  return pieces;
}

}  // namespace alpa
