#pragma once
/// Characters of UTF-8 text that may hold other bytes as well.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace alpa {

/// A character of UTF-8 text.
struct CodePoint {
  std::uint32_t value = 0;  ///< beyond Unicode for a byte that begins no character
  std::size_t bytes = 1;
};

/// The first character of `text`, which is not empty. A byte that is not UTF-8 is one of its own.
CodePoint first_code_point(std::string_view text);

/// The first character of `text` that normalisation to NFC might change or compose with another.
/// Common letters, ideographs, syllables and symbols stay as they are; all others count.
std::optional<std::uint32_t> first_composable(std::string_view text);

}  // namespace alpa
