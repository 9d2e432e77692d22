#pragma once
/// Quoting user text in messages, and values as text for `fmt`.
#include <fmt/core.h>

#include <cstddef>
#include <string>
#include <string_view>
#pragma GCC visibility push(default)

namespace alpa {

/// `text` for quotation in a message, on one line: control characters and invalid
/// UTF-8 become escapes like \n and \x1b, and text longer than `most` bytes is cut and
/// ends in "...". Idempotent.
std::string excerpt(std::string_view text, std::size_t most = 60);

/// `text` between double quotes, with \", \\ and \n escaped, as graph text has strings.
std::string quoted(std::string_view text);

/// `"a", "b"`, or `none`; more than `most` as `"a", "b" and 398 more`.
template <class Names>
std::string quoted_names(const Names& names, std::size_t most = std::string::npos) {
  std::string text;
  std::size_t count = 0;
  for (const std::string& name : names)
    if (count++ < most) text += (text.empty() ? "\"" : ", \"") + name + '"';
  if (count > most) text += " and " + std::to_string(count - most) + " more";
  return text.empty() ? "none" : text;
}

/// A number with two significant digits, never with an exponent: "5.3", "140", "0.076".
std::string two_digits(double value);

/// Seconds with two significant digits, in s, ms or us: "5.3 ms", "140 us", "0".
std::string seconds_text(double seconds);

/// Bytes in MiB with two significant digits: "16 MiB", "0.034 MiB", "under 0.001 MiB".
std::string bytes_text(double bytes);

/// Writes `text` with format `how` ({:<20}).
fmt::appender write_text(const fmt::formatter<fmt::string_view>& how, std::string_view text,
                         fmt::format_context& context);

/// `fmt` formatter of a type that has a `to_string`; accepts the format of a string, e.g. {:<20}.
template <class T>
struct TextFormatter : fmt::formatter<fmt::string_view> {
  /// Writes `to_string(value)`.
  auto format(const T& value, fmt::format_context& context) const {
    return write_text(*this, to_string(value), context);
  }
};

}  // namespace alpa
#pragma GCC visibility pop
