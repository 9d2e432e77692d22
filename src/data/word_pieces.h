#pragma once
/// BERT's tokens (Devlin et al. 2018): words of a simpler text, cut into the longest known pieces.
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace alpa {

/// Differences between texts that BERT's models do not see.
struct BertText {
  bool clean = true;                   ///< no control characters; all white space is spaces
  bool chinese = true;                 ///< Chinese characters are words of their own
  bool unmarked = true, lower = true;  ///< no accents; no capitals

  /// The simpler text, which is UTF-8. Characters have the classes of Unicode 15.
  std::string operator()(std::string_view text) const;
};

/// The words of BERT's text: white space, a punctuation mark, or what is between these.
inline constexpr std::string_view kBertWords = R"(\s+|[\p{P}$+<=>^`|~]|[^\s\p{P}$+<=>^`|~]+)";

/// Tokens of a word.
struct WordPieces {
  std::string prefix = "##";        ///< of pieces that begin within a word
  std::int32_t unknown = 0;         ///< in place of words that are not made of pieces
  std::int64_t most_letters = 100;  ///< longer words are unknown

  /// The longest piece at each place; white space has none.
  std::vector<std::int32_t> encode(
      std::string_view word, const std::unordered_map<std::string, std::int32_t>& tokens) const;
};

}  // namespace alpa
