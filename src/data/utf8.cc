// src/data/utf8.cc — UTF-8 text: its normal form, and what stands in the place of other bytes
#include "src/data/utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "alpa/data/text.h"

namespace alpa {
namespace {

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

bool starts_character(std::string_view text) {
  const std::size_t bytes = length_of(static_cast<unsigned char>(text[0]));
  return bytes == 1 || (bytes > 1 && begun(text) == bytes);
}

/// `text` is UTF-8.
void append_form(std::string_view text, utf8proc_option_t form_of, std::string& result) {
  unsigned char* form = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const unsigned char*>(text.data()), std::ssize(text), &form,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | form_of));
  if (bytes < 0) throw std::bad_alloc();
  const std::unique_ptr<unsigned char, decltype(&std::free)> owner(form, std::free);
  result.append(reinterpret_cast<const char*>(form), static_cast<std::size_t>(bytes));
}

std::string in_form(std::string_view text, utf8proc_option_t form) {
  std::string result;
  while (!text.empty()) {
    result += text.substr(0, utf8_run(text, false));
    text.remove_prefix(utf8_run(text, false));
    // By lines, since utf8proc takes 4 bytes a character. None composes with a line's end.
    const std::string_view line = text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
    append_form(line.substr(0, utf8_run(line, true)), form, result);
    text.remove_prefix(utf8_run(line, true));
  }
  return result;
}

}  // namespace

std::size_t first_character(std::string_view text) {
  return starts_character(text) ? begun(text) : 1;
}

std::size_t utf8_run(std::string_view text, bool valid) {
  std::size_t size = 0;
  while (size < text.size() && starts_character(text.substr(size)) == valid)
    size += valid ? length_of(static_cast<unsigned char>(text[size])) : 1;
  return size;
}

std::string composed(std::string_view text) { return in_form(text, UTF8PROC_COMPOSE); }

std::string decomposed(std::string_view text) { return in_form(text, UTF8PROC_DECOMPOSE); }

std::string valid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t bytes = begun(text);
    valid += starts_character(text) ? text.substr(0, bytes) : kReplacement;
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return valid;
}

}  // namespace alpa
