#pragma once
/// Reading numbers off a text.
#include <charconv>
#include <optional>
#include <string_view>

namespace alpa {

/// The whole number, 0 or more, at the front of `text`, removed from there;
/// nullopt if there is none.
inline std::optional<int> take_leading_number(std::string_view& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(end - text.data());
  return number;
}

}  // namespace alpa
