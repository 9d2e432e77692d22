// src/train/tokenizer.cc — bytes, and GPT-2's byte pairs, as tokens
#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <queue>
#include <unordered_map>
#include <utility>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "alpa/train/text.h"
#include "gpt2_words.h"
#include "src/base/file.h"
#include "src/base/json.h"

namespace alpa {
namespace {

constexpr FileKind kTableFile{"", 256 << 20};
constexpr int kBytes = 256;
/// Most entries of a vocabulary.
constexpr std::int64_t kMaxVocabulary = 1 << 24;

/// Two neighbouring tokens become one; lower ranks first.
struct Merge {
  int rank;
  std::int32_t token;
};

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

/// The code points that stand for bytes in GPT-2's files: printable ones for themselves, the others
/// from 256 on, in order.
std::array<std::uint32_t, kBytes> code_points_of_bytes() {
  std::array<std::uint32_t, kBytes> points{};
  std::uint32_t next = kBytes;
  for (std::uint32_t byte = 0; byte < kBytes; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    points[byte] = printable ? byte : next++;
  }
  return points;
}

/// Text of GPT-2's files to the bytes that it stands for; none if it stands for no bytes.
class ByteDecoder {
 public:
  ByteDecoder() {
    const auto points = code_points_of_bytes();
    for (int byte = 0; byte < kBytes; ++byte) bytes_[points[byte]] = static_cast<char>(byte);
  }
  std::optional<std::string> operator()(std::string_view text) const {
    std::string bytes;
    while (!text.empty()) {
      const CodePoint point = first_code_point(text);
      const auto found = bytes_.find(point.value);
      if (found == bytes_.end()) return {};
      bytes += found->second;
      text.remove_prefix(point.bytes);
    }
    return bytes;
  }

 private:
  std::unordered_map<std::uint32_t, char> bytes_;
};

}  // namespace

struct Tokenizer::Impl {
  bool merging = false;                                  ///< else a token is a byte
  std::vector<std::string> texts;                        ///< per token, its bytes
  std::unordered_map<std::string, std::int32_t> tokens;  ///< by bytes
  std::unordered_map<std::uint64_t, Merge> merges;       ///< by pair_key
  std::array<std::int32_t, kBytes> byte_tokens{};

  void add(std::string bytes, std::int32_t token) {
    texts[token] = bytes;
    tokens.emplace(std::move(bytes), token);
  }

  std::vector<std::int32_t> encode_word(std::string_view word) const;
};

namespace {

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

/// Reads vocab.json: {"token": number, …}.
std::vector<std::pair<std::string, std::int32_t>> read_vocabulary(const std::string& path,
                                                                  const ByteDecoder& bytes_of) {
  const nlohmann::json json = parse_json(read_file(path, kTableFile), path);
  require(json.is_object() && !json.empty(),
          "{}: is not a vocabulary: expected {{\"token\": 0, …}}", path);
  std::vector<std::pair<std::string, std::int32_t>> entries;
  for (const auto& [text, number] : json.items()) {
    require(number.is_number_unsigned() && number.get<std::uint64_t>() < kMaxVocabulary,
            "{}: token \"{}\" has number {}; expected a whole one from 0 to {}", path,
            excerpt(text), shown(number), kMaxVocabulary - 1);
    // Added tokens may be any text, which stands for itself.
    entries.emplace_back(bytes_of(text).value_or(text), number.get<std::int32_t>());
  }
  return entries;
}

}  // namespace

std::vector<std::int32_t> Tokenizer::Impl::encode_word(std::string_view word) const {
  // A list of tokens: each knows its neighbours; merged ones leave it. -1: none, or gone.
  constexpr auto kEnd = std::numeric_limits<std::size_t>::max();
  std::vector<std::int32_t> at;
  for (char byte : word) at.push_back(byte_tokens[static_cast<unsigned char>(byte)]);
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

Tokenizer Tokenizer::of_bytes() {
  auto impl = std::make_shared<Impl>();
  impl->texts.resize(kBytes);
  for (int byte = 0; byte < kBytes; ++byte)
    impl->add(std::string(1, static_cast<char>(byte)), byte);
  return Tokenizer(std::move(impl));
}

Tokenizer Tokenizer::gpt2(const std::string& vocabulary_path, const std::string& merges_path) {
  const ByteDecoder bytes_of;
  auto impl = std::make_shared<Impl>();
  impl->merging = true;
  const auto entries = read_vocabulary(vocabulary_path, bytes_of);
  std::int32_t largest = 0;
  for (const auto& [bytes, token] : entries) largest = std::max(largest, token);
  impl->texts.resize(static_cast<std::size_t>(largest) + 1);
  for (const auto& [bytes, token] : entries) {
    require(impl->texts[token].empty(), "{}: \"{}\" and \"{}\" have the same number {}",
            vocabulary_path, excerpt(impl->texts[token]), excerpt(bytes), token);
    impl->add(bytes, token);
  }
  for (int byte = 0; byte < kBytes; ++byte) {
    const auto found = impl->tokens.find(std::string(1, static_cast<char>(byte)));
    require(found != impl->tokens.end(), "{}: has no token for byte {}", vocabulary_path, byte);
    impl->byte_tokens[byte] = found->second;
  }
  const std::string text = read_file(merges_path, kTableFile);
  int rank = 0, number = 0;
  for (std::size_t start = 0; start < text.size(); ++number) {
    std::string_view line = std::string_view(text).substr(start, text.find('\n', start) - start);
    start += line.size() + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 0 && line.starts_with("#version"))) continue;
    const std::size_t space = line.find(' ');
    require(space != line.npos && line.find(' ', space + 1) == line.npos,
            "{}: line {} is '{}'; expected two parts of a token", merges_path, number + 1,
            excerpt(line));
    const auto token_of = [&](const std::string& part) {
      const auto found = impl->tokens.find(part);
      require(found != impl->tokens.end(), "{}: line {}: '{}' is not in the vocabulary {}",
              merges_path, number + 1, excerpt(part), vocabulary_path);
      return found->second;
    };
    const std::string left = bytes_of(line.substr(0, space)).value_or(""),
                      right = bytes_of(line.substr(space + 1)).value_or("");
    const std::int32_t l = token_of(left), r = token_of(right);
    impl->merges.emplace(pair_key(l, r), Merge{rank++, token_of(left + right)});
  }
  return Tokenizer(std::move(impl));
}

std::int64_t Tokenizer::vocabulary() const {
  return static_cast<std::int64_t>(impl_->texts.size());
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> result;
  if (!impl_->merging) {
    for (char byte : text) result.push_back(static_cast<unsigned char>(byte));
    return result;
  }
  std::unordered_map<std::string_view, std::vector<std::int32_t>> known;  // words repeat
  while (!text.empty()) {
    const std::string_view word = text.substr(0, gpt2_word(text));
    text.remove_prefix(word.size());
    auto found = known.find(word);
    if (found == known.end()) found = known.emplace(word, impl_->encode_word(word)).first;
    result.insert(result.end(), found->second.begin(), found->second.end());
  }
  return result;
}

std::string Tokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (std::int32_t token : tokens) {
    require(token >= 0 && token < vocabulary(), "decode: token {} of a vocabulary of {}", token,
            vocabulary());
    text += impl_->texts[token];
  }
  return text;
}

std::optional<std::int32_t> Tokenizer::find(std::string_view text) const {
  const auto found = impl_->tokens.find(std::string(text));
  return found == impl_->tokens.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace alpa
