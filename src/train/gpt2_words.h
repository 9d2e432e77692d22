#pragma once
/// How GPT-2 cuts text into words before it merges their bytes.
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace alpa {

/// A character of UTF-8 text.
struct CodePoint {
  std::uint32_t value = 0;  ///< beyond Unicode for a byte that begins no character
  std::size_t bytes = 1;
};

/// The first character of `text`, which is not empty. A byte that is not UTF-8 is one of its own.
CodePoint first_code_point(std::string_view text);

/// Unicode's general categories L and N, and its property White_Space.
bool is_letter(std::uint32_t code_point);
bool is_number(std::uint32_t code_point);
bool is_space(std::uint32_t code_point);

/// Bytes of the first word of `text`, which is not empty. The pattern of GPT-2's encoder:
/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
std::size_t gpt2_word(std::string_view text);

}  // namespace alpa
