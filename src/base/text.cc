// src/base/text.cc — quotes user text, and formats numbers, seconds and bytes
#include "alpa/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace alpa {
namespace {

unsigned byte_at(std::string_view text, std::size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
}

/// Bytes of the printable character that starts `text`; 0 if it must be escaped. Overlong forms,
/// surrogates and the control characters above ASCII count as invalid UTF-8.
std::size_t printable_length(std::string_view text) {
  const unsigned first = byte_at(text, 0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  unsigned code = first & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte_at(text, i) & 0xc0U) != 0x80) return 0;
    code = code << 6 | (byte_at(text, i) & 0x3fU);
  }
  constexpr unsigned kLeast[] = {0, 0, 0xa0, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return first < 0xc0 || code < kLeast[length] || code > 0x10ffff || surrogate ? 0 : length;
}

std::string escaped(char c) {
  switch (c) {
    case '\n': return "\\n";
    case '\t': return "\\t";
    case '\r': return "\\r";
    default: return fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return result + '"';
}

std::string excerpt(std::string_view text, std::size_t most) {
  constexpr std::string_view kMore = "...";
  std::string result;
  std::size_t cut = 0;  ///< where "..." goes, should the rest be too long
  while (!text.empty()) {
    const std::size_t length = printable_length(text);
    const std::string piece = length > 0 ? std::string(text.substr(0, length)) : escaped(text[0]);
    if (result.size() + kMore.size() <= most) cut = result.size();
    if (result.size() + piece.size() > most) return result.substr(0, cut).append(kMore);
    result += piece;
    text.remove_prefix(length > 0 ? length : 1);
  }
  return result;
}

std::string two_digits(double value) {
  if (value == 0 || !std::isfinite(value)) return fmt::format("{}", value);
  const auto exponent = [](double x) {
    return static_cast<int>(std::floor(std::log10(std::abs(x))));
  };
  const double unit = std::pow(10, exponent(value) - 1), rounded = std::round(value / unit) * unit;
  return fmt::format("{:.{}f}", rounded, std::max(0, 1 - exponent(rounded * (1 + 1e-12))));
}

std::string seconds_text(double seconds) {
  const double size = std::abs(seconds);
  if (size == 0) return "0";
  if (size >= 0.9949) return two_digits(seconds) + " s";
  return size >= 0.9949e-3 ? two_digits(seconds * 1e3) + " ms" : two_digits(seconds * 1e6) + " us";
}

std::string bytes_text(double bytes) {
  constexpr double kMiB = 1 << 20, kLeast = 0.001;
  if (bytes > 0 && bytes < kLeast * kMiB) return fmt::format("under {} MiB", kLeast);
  return two_digits(bytes / kMiB) + " MiB";
}

fmt::appender write_text(const fmt::formatter<fmt::string_view>& how, std::string_view text,
                         fmt::format_context& context) {
  return how.format({text.data(), text.size()}, context);
}

}  // namespace alpa
