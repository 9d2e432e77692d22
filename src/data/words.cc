// src/data/words.cc — words by the regular expressions of tokenizers, which PCRE2 matches
#include "src/data/words.h"

#include <cctype>
#include <new>

#include "alpa/base/error.h"
#include "alpa/base/text.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

static_assert(PCRE2_MAJOR > 10 || PCRE2_MINOR >= 40, "PCRE2 10.40 is the first with White_Space");

namespace alpa {
namespace {

constexpr std::uint32_t kHeapKibibytes = 64 << 10;  // that one match may take

/// The pattern with Oniguruma's \s and \w, whose sets differ from PCRE2's: its \s has U+180E, and
/// its \w lacks marks, for example. Throws Error for what else PCRE2 reads in another way.
std::string for_pcre2(std::string_view regex) {
  constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\xB2\xB3\xB9\xBC-\xBE)";
  std::string result;
  bool in_class = false;  // between [ and ]
  for (std::size_t i = 0; i < regex.size(); ++i) {
    const std::string_view two = regex.substr(i, 2);
    require(!in_class || (two[0] != '[' && two != "&&"), "alpa reads no classes within a class");
    if (two[0] == '[' || two[0] == ']') in_class = two[0] == '[';
    if (two[0] != '\\' || two.size() < 2) {
      result += two[0];
      continue;
    }
    ++i;
    if (two == R"(\s)")
      result += R"(\p{White_Space})";
    else if (two == R"(\S)")
      result += R"(\P{White_Space})";
    else if (two == R"(\w)")
      result += in_class ? std::string(kWord) : fmt::format("[{}]", kWord);
    else if (two == R"(\W)" && !in_class)
      result += fmt::format("[^{}]", kWord);
    else {
      const bool letter = std::isalpha(static_cast<unsigned char>(two[1])) != 0;
      require(!letter || std::string_view("dDpPnrtfaexu").find(two[1]) != two.npos,
              "alpa reads no {}{}", two, in_class ? " within a class" : "");
      result += two;
    }
  }
  return result;
}

std::string message_of(int error) {
  unsigned char text[256] = "";
  pcre2_get_error_message(error, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

const unsigned char* code_units(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

/// Bytes of the character at the start of `text`, which is UTF-8.
std::size_t character_bytes(std::string_view text) {
  std::size_t bytes = 1;
  while (bytes < text.size() && (text[bytes] & 0xC0) == 0x80) ++bytes;
  return bytes;
}

}  // namespace

WordPattern::WordPattern(std::string_view regex) : regex_(regex) {
  const std::string text = for_pcre2(regex);
  int error = 0;
  std::size_t place = 0;
  pcre2_code* code =
      pcre2_compile(code_units(text), text.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error,
                    &place, nullptr);
  require(code != nullptr, "'{}' is no regular expression: {}", excerpt(regex), message_of(error));
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // five times as fast, where the system allows it
  code_ = {code, [](void* held) { pcre2_code_free(static_cast<pcre2_code*>(held)); }};
}

void WordPattern::cut(std::string_view text, const Visit& visit) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  const std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> limits(
      pcre2_match_context_create(nullptr), pcre2_match_context_free);
  if (!match || !limits) throw std::bad_alloc();
  pcre2_set_heap_limit(limits.get(), kHeapKibibytes);
  std::size_t visited = 0;
  for (std::size_t from = 0; from < text.size();) {
    const auto next = [&](std::uint32_t options) {
      return pcre2_match(code, code_units(text), text.size(), from, PCRE2_NO_UTF_CHECK | options,
                         match.get(), limits.get());
    };
    int found = next(0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = next(PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0)
      fail("encode: the pattern '{}' of words: {} behind '{}'; simplify the pattern",
           excerpt(regex_), message_of(found), excerpt(text.substr(from)));
    const std::size_t* bounds = pcre2_get_ovector_pointer(match.get());
    const std::size_t start = bounds[0], end = bounds[1];
    if (start > visited) visit(text.substr(visited, start - visited));
    if (end > start) visit(text.substr(start, end - start));
    visited = end;
    from = end > start ? end : end + character_bytes(text.substr(end));
  }
  if (visited < text.size()) visit(text.substr(visited));
}

void for_each_word(std::string_view text, std::span<const WordPattern> patterns,
                   const WordPattern::Visit& visit) {
  if (patterns.empty()) return visit(text);
  patterns[0].cut(text,
                  [&](std::string_view part) { for_each_word(part, patterns.subspan(1), visit); });
}

}  // namespace alpa
