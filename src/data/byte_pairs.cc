// src/data/byte_pairs.cc — byte-pair encoding of words, and its vocabulary
#include "src/data/byte_pairs.h"

#include <utf8proc.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/base/json.h"
#include "src/data/utf8.h"

namespace alpa {
namespace {

constexpr int kBytes = 256;

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

/// The code points that stand for bytes in GPT-2's files: printable ones for themselves, the others
/// from 256 on, in order.
std::unordered_map<std::uint32_t, char> bytes_of_code_points() {
  std::unordered_map<std::uint32_t, char> bytes;
  std::uint32_t next = kBytes;
  for (std::uint32_t byte = 0; byte < kBytes; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    bytes[printable ? byte : next++] = static_cast<char>(byte);
  }
  return bytes;
}

/// Text of GPT-2's files to the bytes that it stands for; none if it stands for no bytes.
std::optional<std::string> bytes_of(std::string_view text) {
  static const std::unordered_map<std::uint32_t, char> known = bytes_of_code_points();
  std::string bytes;
  while (!text.empty()) {
    std::int32_t point = 0;
    const auto size = utf8proc_iterate(reinterpret_cast<const unsigned char*>(text.data()),
                                       std::ssize(text), &point);
    const auto found = size > 0 ? known.find(static_cast<std::uint32_t>(point)) : known.end();
    if (found == known.end()) return {};
    bytes += found->second;
    text.remove_prefix(static_cast<std::size_t>(size));
  }
  return bytes;
}

/// A pair that may be merged, at the place of its left token.
struct Candidate {
  int rank;
  std::size_t left, right;
  std::int32_t left_token, right_token, merged;

  /// For a queue whose top has the lowest rank, of equal ones the leftmost.
  bool operator<(const Candidate& other) const {
    return std::pair(rank, left) > std::pair(other.rank, other.left);
  }
};

/// Largest number of the vocabulary.
std::int32_t largest_token(const nlohmann::json& json, const std::string& title) {
  require(json.is_object() && !json.empty(),
          "{}: is not a vocabulary: expected {{\"token\": 0, …}}", title);
  std::int32_t largest = 0;
  for (const auto& [text, number] : json.items()) {
    require(number.is_number_unsigned() && number.get<std::uint64_t>() < kMaxVocabulary,
            "{}: token \"{}\" has number {}; expected a whole one from 0 to {}", title,
            excerpt(text), shown(number), kMaxVocabulary - 1);
    largest = std::max(largest, number.get<std::int32_t>());
  }
  return largest;
}

}  // namespace

void BytePairs::add(const std::string& bytes, std::int32_t token, const std::string& title) {
  std::string& text = texts[static_cast<std::size_t>(token)];
  require(text.empty() || text == bytes, "{}: \"{}\" and \"{}\" have the same number {}", title,
          excerpt(text), excerpt(bytes), token);
  text = bytes;
  tokens.emplace(bytes, token);
}

void BytePairs::add_merges(std::span<const float> scores) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  std::vector<float> ranks(scores.begin(), scores.end());  // each score once, the highest first
  std::ranges::sort(ranks, std::greater());
  ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
  const auto scored = [&](const std::string& text) {
    const auto found = tokens.find(text);
    return found == tokens.end() || scores[found->second] == kNone ? -1 : found->second;
  };
  for (std::size_t token = 0; token < scores.size(); ++token) {
    const std::string& text = texts[token];
    if (scores[token] == kNone) continue;
    const auto rank = std::ranges::lower_bound(ranks, scores[token], std::greater());
    for (std::size_t i = first_character(text); i < text.size();
         i += first_character(std::string_view(text).substr(i)))
      if (const std::int32_t left = scored(text.substr(0, i)); left >= 0)
        if (const std::int32_t right = scored(text.substr(i)); right >= 0)
          merges.emplace(pair_key(left, right), Merge{static_cast<int>(rank - ranks.begin()),
                                                      static_cast<std::int32_t>(token)});
  }
}

void BytePairs::append(std::string_view part, std::vector<std::int32_t>& result) const {
  const auto token_of = [&](char byte) { return byte_tokens[static_cast<unsigned char>(byte)]; };
  if (characters)
    if (const auto found = tokens.find(std::string(part)); found != tokens.end())
      return result.push_back(found->second);
  const auto missing = std::ranges::find_if(part, [&](char byte) { return token_of(byte) < 0; });
  if (missing == part.end()) {
    std::ranges::transform(part, std::back_inserter(result), token_of);
  } else if (unknown < 0) {
    fail("encode: '{}': the tokenizer has no token for byte {}", excerpt(part),
         static_cast<unsigned char>(*missing));
  } else if (result.empty() || result.back() != unknown) {
    result.push_back(unknown);
  }
}

std::vector<std::int32_t> BytePairs::encode(std::string_view word) const {
  if (whole_words)
    if (const auto found = tokens.find(std::string(word)); found != tokens.end())
      return {found->second};
  // A list of tokens: each knows its neighbours; merged ones leave it. -1: none, or gone.
  constexpr auto kEnd = std::numeric_limits<std::size_t>::max();
  std::vector<std::int32_t> at;
  for (std::size_t i = 0, size = 0; i < word.size(); i += size) {
    size = characters ? first_character(word.substr(i)) : 1;
    append(word.substr(i, size), at);
  }
  std::vector<std::size_t> next(at.size()), previous(at.size());
  std::priority_queue<Candidate> queue;
  const auto consider = [&](std::size_t left, std::size_t right) {
    if (left == kEnd || right == kEnd) return;
    const auto found = merges.find(pair_key(at[left], at[right]));
    if (found != merges.end())
      queue.push({found->second.rank, left, right, at[left], at[right], found->second.token});
  };
  for (std::size_t i = 0; i < at.size(); ++i) {
    previous[i] = i == 0 ? kEnd : i - 1;
    next[i] = i + 1 == at.size() ? kEnd : i + 1;
    if (i > 0) consider(i - 1, i);
  }
  while (!queue.empty()) {
    const Candidate pair = queue.top();
    queue.pop();
    if (at[pair.left] != pair.left_token || at[pair.right] != pair.right_token ||
        next[pair.left] != pair.right)
      continue;
    at[pair.left] = pair.merged, at[pair.right] = -1;
    next[pair.left] = next[pair.right];
    if (next[pair.left] != kEnd) previous[next[pair.left]] = pair.left;
    consider(previous[pair.left], pair.left);
    consider(pair.left, next[pair.left]);
  }
  std::erase(at, -1);
  return at;
}

BytePairs read_vocabulary(const nlohmann::json& json, const std::string& title, bool plain) {
  BytePairs pairs;
  pairs.texts.resize(static_cast<std::size_t>(largest_token(json, title)) + 1);
  pairs.tokens.reserve(json.size());
  // Added tokens may be any text, which stands for itself.
  for (const auto& [text, number] : json.items())
    pairs.add(plain ? text : bytes_of(text).value_or(text), number.get<std::int32_t>(), title);
  for (int byte = 0; byte < kBytes; ++byte) {
    const auto found = pairs.tokens.find(std::string(1, static_cast<char>(byte)));
    pairs.byte_tokens[byte] = found == pairs.tokens.end() ? -1 : found->second;
  }
  return pairs;
}

void add_merge(BytePairs& pairs, std::string_view left, std::string_view right,
               const std::string& where, const std::string& vocabulary) {
  const auto token_of = [&](const std::string& bytes) {
    const auto found = pairs.tokens.find(bytes);
    require(found != pairs.tokens.end(), "{}: '{}' is not in the vocabulary {}", where,
            excerpt(bytes), vocabulary);
    return found->second;
  };
  const auto read = [&](std::string_view text) {
    return pairs.characters ? std::string(text) : bytes_of(text).value_or("");
  };
  const std::string a = read(left), b = read(right);
  const std::int32_t first = token_of(a), second = token_of(b);
  const auto rank = static_cast<int>(pairs.merges.size());
  pairs.merges.emplace(pair_key(first, second), Merge{rank, token_of(a + b)});
}

}  // namespace alpa
