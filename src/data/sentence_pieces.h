#pragma once
/// Tokens of SentencePiece (Kudo & Richardson 2018): pieces of a text in which spaces are letters.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/data/byte_pairs.h"

namespace alpa {

struct TokenizerTables;

inline constexpr std::string_view kSpaceLetter = "\xe2\x96\x81";  ///< U+2581, in place of spaces

/// A unigram model (Kudo 2018): of all ways to cut a word into pieces, that whose scores add up to
/// most.
struct Unigram {
  std::vector<float> scores;  ///< by token; minus infinity for those that texts do not have
  float unknown = 0;          ///< score of a character that is no piece
  std::size_t longest = 0;    ///< bytes of a piece

  /// The tokens of a word; `pieces` has their texts, and what stands for unknown characters.
  std::vector<std::int32_t> encode(std::string_view word, const BytePairs& pieces) const;
};

/// The text with letters in place of its spaces.
std::string with_space_letters(std::string_view text);

/// Makes the texts of `tables` those of a decoder: spaces as such, and bytes of tokens "<0x41>",
/// which characters without a token of their own become.
void read_piece_texts(TokenizerTables& tables);

/// Reads a tokenizer.model, with the tokens around a text by tokenizer_config.json beside it, or
/// the tokenizer "llama" of a GGUF file. Control symbols are found in texts, as those that users
/// define are. Throws Error naming file, place and mistake.
TokenizerTables read_sentence_pieces(const std::string& path);

}  // namespace alpa
