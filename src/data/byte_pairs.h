#pragma once
/// Byte-pair encoding (Sennrich et al. 2016): a vocabulary of byte strings, and which neighbours
/// become one token.
#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace alpa {

/// Most entries of a vocabulary: four times the largest in use, and tables of them take 32 MiB.
inline constexpr std::int64_t kMaxVocabulary = 1 << 20;

/// Two neighbouring tokens become one; lower ranks first.
struct Merge {
  int rank;
  std::int32_t token;
};

struct BytePairs {
  std::vector<std::string> texts;                        ///< per token, its bytes
  std::unordered_map<std::string, std::int32_t> tokens;  ///< by bytes
  std::unordered_map<std::uint64_t, Merge> merges;       ///< by both tokens
  std::array<std::int32_t, 256> byte_tokens{};           ///< -1: none, as rare ones of SmolLM
  bool whole_words = false;  ///< a word that is a token is not made of others (`ignore_merges`)
  /// SentencePiece's: texts are as in the vocabulary, and words begin as characters.
  bool characters = false;
  std::int32_t unknown = -1;  ///< in place of characters without a token; -1: these are errors

  /// Adds a token. Throws Error starting with `title` if another one has its number.
  void add(const std::string& bytes, std::int32_t token, const std::string& title);
  /// Merges of all neighbours that together are a token with a score, the highest first. Tokens
  /// with minus infinity have no part in any.
  void add_merges(std::span<const float> scores);
  /// Adds the token of this text, else those of its bytes, else the unknown one, if it is not the
  /// last already. Throws Error if there is none.
  void append(std::string_view part, std::vector<std::int32_t>& result) const;
  /// The tokens of a word. Throws Error if a byte of it has none.
  std::vector<std::int32_t> encode(std::string_view word) const;
};

/// Byte pairs without merges of a vocabulary {"token": number, …}, whose texts write every byte as
/// a character, as GPT-2's do, or stand for themselves (`plain`). Throws Error starting with
/// `title`.
BytePairs read_vocabulary(const nlohmann::json& json, const std::string& title, bool plain = false);

/// Adds the next merge of two texts of the vocabulary. Throws Error starting with `where` if it
/// lacks one of them, or both together. `vocabulary`: its name in the message.
void add_merge(BytePairs& pairs, std::string_view left, std::string_view right,
               const std::string& where, const std::string& vocabulary);

}  // namespace alpa
