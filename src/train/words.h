#pragma once
/// How tokenizers cut text into words before they merge the bytes of each.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace alpa {

/// Unicode's general categories L and N, and its property White_Space.
bool is_letter(std::uint32_t code_point);
bool is_number(std::uint32_t code_point);
bool is_space(std::uint32_t code_point);

/// Whose words. `gpt2_digits`: those of GPT-2 after every number has become a word of its own.
enum class WordPattern : std::uint8_t { gpt2, gpt2_digits, llama3, qwen2 };

/// The pattern that a regular expression describes, if it is one of GPT-2, Llama 3 and Qwen2.
std::optional<WordPattern> find_pattern(std::string_view regex);

/// Bytes of the first word of `text`, which is not empty.
std::size_t first_word(std::string_view text, WordPattern pattern);

}  // namespace alpa
