// src/data/tokenizer.cc — bytes, and byte pairs of GPT-2's and Hugging Face's files, as tokens
#include <filesystem>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "alpa/data/text.h"
#include "src/base/file.h"
#include "src/base/json.h"
#include "src/data/tokenizer_json.h"
#include "src/data/utf8.h"
#include "src/train/gguf_file.h"

namespace alpa {

struct Tokenizer::Impl {
  bool merging = false;  ///< else a token is a byte
  TokenizerTables tables;
};

namespace {

constexpr FileKind kTableFile{"", 256 << 20};

/// Writes a text as tokens.
class Encoder {
 public:
  explicit Encoder(const TokenizerTables& tables) : tables_(tables) {}

  /// Adds the tokens of `text`, which is cut at the tokens of `added[level]` and above.
  void add(std::string_view text, std::size_t level) {
    if (level == tables_.added.size()) return add_words(text);
    for (const AddedTokens::Piece& piece : tables_.added[level].cut(text))
      if (piece.token >= 0)
        tokens_.push_back(piece.token);
      else if (level > 0 || !tables_.normal_form)
        add(piece.text, level + 1);
      else
        add(tables_.normal_form(piece.text, piece.text.data() == text.data()), level + 1);
  }
  std::vector<std::int32_t> take() { return std::move(tokens_); }

 private:
  /// Bytes that are no UTF-8 are words of their own.
  void add_words(std::string_view text) {
    for (bool valid = true; !text.empty(); valid = !valid) {
      const std::string_view run = text.substr(0, utf8_run(text, valid));
      text.remove_prefix(run.size());
      const auto add_word = [&](std::string_view word) { this->add_word(word); };
      if (valid)
        for_each_word(run, tables_.patterns, add_word);
      else if (!run.empty())
        add_word(run);
    }
  }
  void add_word(std::string_view word) {
    std::string key(word);
    auto found = known_.find(key);
    if (found == known_.end()) found = known_.emplace(std::move(key), tokens_of(word)).first;
    tokens_.insert(tokens_.end(), found->second.begin(), found->second.end());
  }

  std::vector<std::int32_t> tokens_of(std::string_view word) const {
    if (tables_.word_pieces) return tables_.word_pieces->encode(word, tables_.pairs.tokens);
    return tables_.unigram ? tables_.unigram->encode(word, tables_.pairs)
                           : tables_.pairs.encode(word);
  }

  const TokenizerTables& tables_;
  std::unordered_map<std::string, std::vector<std::int32_t>> known_;  ///< by word: words repeat
  std::vector<std::int32_t> tokens_;
};

/// Adds every merge of GPT-2's merges.txt, a line each.
void read_merges(const std::string& path, const std::string& vocabulary_path, BytePairs& pairs) {
  const std::string text = read_file(path, kTableFile);
  int number = 0;
  for (std::size_t start = 0; start < text.size(); ++number) {
    std::string_view line = std::string_view(text).substr(start, text.find('\n', start) - start);
    start += line.size() + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 0 && line.starts_with("#version"))) continue;
    const std::size_t space = line.find(' ');
    require(space != line.npos && line.find(' ', space + 1) == line.npos,
            "{}: line {} is '{}'; expected two parts of a token", path, number + 1, excerpt(line));
    add_merge(pairs, line.substr(0, space), line.substr(space + 1),
              fmt::format("{}: line {}", path, number + 1), vocabulary_path);
  }
}

}  // namespace

Tokenizer Tokenizer::of_bytes() {
  auto impl = std::make_shared<Impl>();
  constexpr int kBytes = 256;
  impl->tables.pairs.texts.resize(kBytes);
  for (int byte = 0; byte < kBytes; ++byte)
    impl->tables.pairs.add(std::string(1, static_cast<char>(byte)), byte, "bytes");
  return Tokenizer(std::move(impl));
}

Tokenizer Tokenizer::gpt2(const std::string& vocabulary_path, const std::string& merges_path) {
  auto impl = std::make_shared<Impl>(Impl{.merging = true, .tables = {}});
  impl->tables.pairs = read_vocabulary(
      parse_json(read_file(vocabulary_path, kTableFile), vocabulary_path), vocabulary_path);
  read_merges(merges_path, vocabulary_path, impl->tables.pairs);
  impl->tables.patterns.emplace_back(kGpt2Words);
  return Tokenizer(std::move(impl));
}

Tokenizer Tokenizer::hugging_face(const std::string& path) {
  return Tokenizer(
      std::make_shared<Impl>(Impl{.merging = true, .tables = read_tokenizer_json(path)}));
}

Tokenizer Tokenizer::of_folder(const std::string& folder) {
  const auto has = [&](const char* name) {
    std::error_code unreadable;  // is told by who opens it
    return std::filesystem::exists(folder + name, unreadable);
  };
  if (is_gguf(folder)) return hugging_face(folder);
  if (has("/tokenizer.json")) return hugging_face(folder + "/tokenizer.json");
  if (has("/tokenizer.model"))
    return Tokenizer(std::make_shared<Impl>(
        Impl{.merging = true, .tables = read_sentence_pieces(folder + "/tokenizer.model")}));
  require(has("/vocab.json"),
          "{}: has neither tokenizer.json, nor tokenizer.model, nor vocab.json with merges.txt",
          excerpt(folder));
  return gpt2(folder + "/vocab.json", folder + "/merges.txt");
}

std::int64_t Tokenizer::vocabulary() const {
  return static_cast<std::int64_t>(impl_->tables.pairs.texts.size());
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  if (!impl_->merging) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    return {bytes, bytes + text.size()};
  }
  Encoder encoder(impl_->tables);
  encoder.add(text, 0);
  return encoder.take();
}

std::vector<std::int32_t> Tokenizer::encode_whole(std::string_view text) const {
  std::vector<std::int32_t> result = encode(text);
  const auto& [before, behind] = std::tie(impl_->tables.before, impl_->tables.behind);
  result.insert(result.begin(), before.begin(), before.end());
  result.insert(result.end(), behind.begin(), behind.end());
  return result;
}

std::string Tokenizer::decode(std::span<const std::int32_t> tokens, bool begins) const {
  std::string text;
  for (std::int32_t token : tokens) {
    require(token >= 0 && token < vocabulary(), "decode: token {} of a vocabulary of {}", token,
            vocabulary());
    text += impl_->tables.pairs.texts[token];
  }
  const bool space = begins && impl_->tables.spaced && text.starts_with(' ');
  return space ? text.substr(1) : text;
}

std::optional<std::int32_t> Tokenizer::find(std::string_view text) const {
  const auto& tokens = impl_->tables.pairs.tokens;
  const auto found = tokens.find(std::string(text));
  return found == tokens.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace alpa
