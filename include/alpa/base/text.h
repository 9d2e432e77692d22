#pragma once
/// Text of users in messages.
#include <cstddef>
#include <string>
#include <string_view>

namespace alpa {

/// `text` as a message may quote it, on one line and readable: control characters and bytes that are no
/// UTF-8 become escapes like \n and \x1b, and what is longer than `most` bytes ends in "...". An excerpt is
/// its own excerpt.
std::string excerpt(std::string_view text, std::size_t most = 60);

/// `"a", "b"`, or `none`.
template <class Names>
std::string quoted_names(const Names& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "\"" : ", \"") + name + '"';
  return text.empty() ? "none" : text;
}

}  // namespace alpa
