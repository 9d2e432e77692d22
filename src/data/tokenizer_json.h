#pragma once
/// tokenizer.json of Hugging Face's `tokenizers`: one file with vocabulary, merges, the pattern of
/// words, added tokens and the tokens around a text.
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/data/byte_pairs.h"
#include "src/data/sentence_pieces.h"
#include "src/data/word_pieces.h"
#include "src/data/words.h"

namespace alpa {

/// Tokens that are found in a text before it is cut into words.
class AddedTokens {
 public:
  struct Added {
    std::string text;
    std::int32_t token;
    bool takes_left = false, takes_right = false;  ///< white space before it, behind it
  };
  void add(Added added);

  /// A part of a text: a token, or none and what is between tokens.
  struct Piece {
    std::string_view text;
    std::int32_t token = -1;
  };
  /// The text as pieces, none of which is empty: the leftmost token first, of those that begin at a
  /// place the longest.
  std::vector<Piece> cut(std::string_view text) const;

 private:
  const Added* at(std::string_view text) const;
  std::array<std::vector<Added>, 256> by_first_byte_;  ///< the longest first
};

/// Tables of a tokenizer of byte pairs, or of another one's vocabulary.
struct TokenizerTables {
  BytePairs pairs;
  // Either makes the tokens of a word in place of `pairs`.
  std::optional<WordPieces> word_pieces = {};
  std::optional<Unigram> unigram = {};
  std::vector<WordPattern> patterns;  ///< of words (`for_each_word`)
  /// Normal form of a text, or of what is behind an added token (not `first`); empty: it stays.
  std::function<std::string(std::string_view, bool first)> normal_form;
  bool spaced = false;  ///< texts begin with a space that the text of the first token lacks
  std::array<AddedTokens, 2> added;          ///< those of the second are found in what is left
  std::vector<std::int32_t> before, behind;  ///< tokens around a whole text
};

/// Reads a tokenizer.json, or that of a GGUF file. Throws Error naming file, place and mistake,
/// also for what alpa lacks.
TokenizerTables read_tokenizer_json(const std::string& path);

}  // namespace alpa
