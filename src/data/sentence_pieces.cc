// src/data/sentence_pieces.cc — reads tokenizer.model, and cuts words by a unigram model
#include "src/data/sentence_pieces.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/base/file.h"
#include "src/base/json_place.h"
#include "src/data/tokenizer_json.h"
#include "src/data/utf8.h"
#include "src/train/gguf_file.h"

namespace alpa {
namespace {

constexpr FileKind kModelFile{"", 256 << 20};
constexpr std::size_t kLongestPiece = 1024;  ///< bytes; those in use have some 50
constexpr float kNever = -std::numeric_limits<float>::infinity();

enum PieceType : int { kNormal = 1, kUnknown = 2, kControl = 3, kDefined = 4 };

struct ScoredPiece {
  std::string text;
  float score = 0;
  int type = kNormal;
};

/// What a tokenizer.model says, with the defaults of its format.
struct PieceModel {
  std::vector<ScoredPiece> pieces;
  bool unigram = true, prefix = true, single_spaces = true;
  std::string characters;  ///< the trie of texts that others take the place of
  std::string start = "<s>", end = "</s>";
  bool starts = true, ends = false;  ///< these tokens are around a text
};

/// The fields of a message of protocol buffers, one after another.
class Message {
 public:
  Message(std::string_view bytes, const std::string& path) : rest_(bytes), path_(path) {}

  /// Goes to the next field; false at the end.
  bool next() {
    if (rest_.empty()) return false;
    const std::uint64_t key = varint();
    field = static_cast<int>(std::min<std::uint64_t>(key >> 3, 1 << 29));
    const std::uint64_t kind = key & 7;
    if (kind == 0)
      number = varint();
    else if (kind == 1 || kind == 2 || kind == 5)
      bytes = taken(kind == 1 ? 8 : kind == 5 ? 4 : varint());
    else
      bad();
    return true;
  }
  /// The field as a number of 4 bytes.
  float real() const {
    float value = 0;
    if (bytes.size() != sizeof(value)) bad();
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }

  int field = 0;
  std::uint64_t number = 0;
  std::string_view bytes;

 private:
  [[noreturn]] void bad() const {
    fail("{}: is no model of SentencePiece, or is cut off; get the file again", path_);
  }
  std::string_view taken(std::uint64_t size) {
    if (size > rest_.size()) bad();
    const std::string_view part = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return part;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(taken(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    bad();
  }

  std::string_view rest_;
  const std::string& path_;
};

ScoredPiece piece_of(Message message) {
  ScoredPiece piece;
  while (message.next()) {
    if (message.field == 1) piece.text = message.bytes;
    if (message.field == 2) piece.score = message.real();
    if (message.field == 3) piece.type = static_cast<int>(message.number & 0xFF);
  }
  return piece;
}

void read_trainer(Message message, const std::string& path, PieceModel& model) {
  constexpr std::uint64_t kUnigram = 1, kPairs = 2;
  while (message.next()) {
    if (message.field == 3) {
      require(message.number == kUnigram || message.number == kPairs,
              "{}: trainer_spec.model_type: found {}, expected 1, unigram, or 2, byte pairs", path,
              message.number);
      model.unigram = message.number == kUnigram;
    }
    require(message.field != 24 || message.number == 0,
            "{}: trainer_spec.treat_whitespace_as_suffix: found true, expected false; alpa has "
            "nothing else",
            path);
    if (message.field == 46) model.start = message.bytes;
    if (message.field == 47) model.end = message.bytes;
  }
}

void read_normalizer(Message message, const std::string& path, PieceModel& model) {
  while (message.next()) {
    if (message.field == 2) model.characters = message.bytes;
    if (message.field == 3) model.prefix = message.number != 0;
    if (message.field == 4) model.single_spaces = message.number != 0;
    require(message.field != 5 || message.number != 0,
            "{}: normalizer_spec.escape_whitespaces: found false, expected true; alpa has nothing "
            "else",
            path);
  }
}

PieceModel read_model_file(const std::string& path) {
  PieceModel model;
  const std::string content = read_file(path, kModelFile);
  for (Message message(content, path); message.next();) {
    const Message part(message.bytes, path);
    if (message.field == 1) model.pieces.push_back(piece_of(part));
    if (message.field == 2) read_trainer(part, path, model);
    if (message.field == 3) read_normalizer(part, path, model);
  }
  const std::string config =
      std::filesystem::path(path).parent_path().string() + "/tokenizer_config.json";
  std::error_code unreadable;  // is told by who opens it
  if (!std::filesystem::exists(config, unreadable)) return model;
  const nlohmann::json json = parse_json(read_file(config, kModelFile), config);
  const JsonPlace place(json, config);
  for (const auto& [key, flag] :
       {std::pair("add_bos_token", &model.starts), {"add_eos_token", &model.ends}})
    if (place.contains(key) && !place.at(key).is_null()) *flag = place.at(key).boolean();
  return model;
}

/// The same of a GGUF file's metadata.
PieceModel read_gguf_pieces(const std::string& path) {
  const GgufFile file(path);
  const JsonPlace metadata(file.metadata(), path);
  const auto list = [&](const char* key) { return metadata.at(key).items(); };
  const auto tokens = list("tokenizer.ggml.tokens"), scores = list("tokenizer.ggml.scores"),
             types = list("tokenizer.ggml.token_type");
  if (scores.size() != tokens.size() || types.size() != tokens.size())
    metadata.at("tokenizer.ggml.tokens")
        .refuse(fmt::format("has {} tokens, but there are {} scores and {} types", tokens.size(),
                            scores.size(), types.size()));
  PieceModel model{.pieces = {}, .unigram = false, .single_spaces = false, .characters = {}};
  for (std::size_t i = 0; i < tokens.size(); ++i)
    model.pieces.push_back(
        {tokens[i].text(), static_cast<float>(scores[i].number()), types[i].integer()});
  for (const auto& [key, flag] : {std::pair("tokenizer.ggml.add_space_prefix", &model.prefix),
                                  {"tokenizer.ggml.add_bos_token", &model.starts},
                                  {"tokenizer.ggml.add_eos_token", &model.ends}})
    if (metadata.contains(key)) *flag = metadata.at(key).boolean();
  for (const auto& [key, text] : {std::pair("tokenizer.ggml.bos_token_id", &model.start),
                                  {"tokenizer.ggml.eos_token_id", &model.end}})
    if (metadata.contains(key)) *text = tokens[metadata.at(key).count(tokens.size() - 1)].text();
  return model;
}

/// Texts that others take the place of, in a double array (Aoe 1989) as Darts-clone has it: its
/// bytes, then the other texts, each with a 0 behind it.
class CharacterMap {
 public:
  CharacterMap(std::string_view bytes, const std::string& path) {
    if (bytes.empty()) return;
    std::uint32_t size = 0;
    std::memcpy(&size, bytes.data(), std::min(bytes.size(), sizeof(size)));
    require(bytes.size() >= sizeof(size) && size % sizeof(size) == 0 &&
                size <= bytes.size() - sizeof(size),
            "{}: normalizer_spec.precompiled_charsmap: is damaged; get the file again", path);
    units_.resize(size / sizeof(size));
    std::memcpy(units_.data(), bytes.data() + sizeof(size), size);
    texts_ = bytes.substr(sizeof(size) + size);
  }

  /// The longest text at the start of `text` that another takes the place of, as both sizes and
  /// this other text; else its first character.
  std::pair<std::size_t, std::string_view> first(std::string_view text) const {
    std::pair<std::size_t, std::string_view> best{first_character(text),
                                                  text.substr(0, first_character(text))};
    std::size_t at = units_.empty() ? 0 : offset(units_[0]);
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      at ^= byte;
      if (at >= units_.size() || (units_[at] & 0x800000FF) != byte) break;
      const bool ends = (units_[at] >> 8 & 1) != 0;
      at ^= offset(units_[at]);
      if (!ends || at >= units_.size()) continue;
      if (const std::size_t place = units_[at] & 0x7FFFFFFF; place < texts_.size())
        best = {i + 1, texts_.c_str() + place};
    }
    return best;
  }

 private:
  static std::size_t offset(std::uint32_t unit) {
    return static_cast<std::size_t>(unit >> 10) << ((unit & 0x200) >> 6);
  }

  std::vector<std::uint32_t> units_;
  std::string texts_;
};

std::string replaced(std::string_view text, std::string_view part, std::string_view other) {
  std::string result;
  while (!text.empty()) {
    const bool found = text.starts_with(part);
    result += found ? other : text.substr(0, 1);
    text.remove_prefix(found ? part.size() : 1);
  }
  return result;
}

/// A text as its pieces are: other characters, and letters in place of spaces.
struct PieceText {
  CharacterMap characters;
  bool prefix, single_spaces;

  std::string operator()(std::string_view text) const {
    std::string plain;
    bool space = single_spaces;  // further ones are left out
    while (!text.empty()) {
      auto [size, part] = characters.first(text);
      text.remove_prefix(size);
      while (space && part.starts_with(' ')) part.remove_prefix(1);
      plain += part;
      if (!part.empty()) space = single_spaces && part.ends_with(' ');
    }
    std::string letters = with_space_letters((prefix ? " " : "") + plain);
    while (single_spaces && letters.ends_with(kSpaceLetter))
      letters.resize(letters.size() - kSpaceLetter.size());
    return letters;
  }
};

/// Merges or scores of the pieces.
void add_scores(const PieceModel& model, const std::string& path, TokenizerTables& tables) {
  std::vector<float> scores;
  float least = std::numeric_limits<float>::max();
  std::size_t longest = 0;
  for (const ScoredPiece& piece : model.pieces) {
    const bool used = piece.type == kNormal;
    require(!used || std::isfinite(piece.score), "{}: piece '{}' has score {}; expected a number",
            path, excerpt(piece.text), piece.score);
    require(!used || piece.text.size() <= kLongestPiece,
            "{}: piece '{}' has {} bytes; alpa reads pieces of at most {}", path,
            excerpt(piece.text), piece.text.size(), kLongestPiece);
    scores.push_back(used ? piece.score : kNever);
    if (!used) continue;
    least = std::min(least, piece.score);
    longest = std::max(longest, piece.text.size());
  }
  constexpr float kUnknownCosts = 10;
  if (model.unigram)
    tables.unigram = Unigram{std::move(scores), least - kUnknownCosts, longest};
  else
    tables.pairs.add_merges(scores);
}

TokenizerTables tables_of(const PieceModel& model, const std::string& path) {
  require(!model.pieces.empty() && std::ssize(model.pieces) <= kMaxVocabulary,
          "{}: has {} pieces; expected 1 to {}", path, model.pieces.size(), kMaxVocabulary);
  TokenizerTables tables;
  tables.pairs.characters = true;
  tables.pairs.texts.resize(model.pieces.size());
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const auto& [text, score, type] = model.pieces[i];
    const auto token = static_cast<std::int32_t>(i);
    require(!text.empty(), "{}: piece {} is empty", path, i);
    tables.pairs.add(text, token, path);
    if (type == kUnknown) tables.pairs.unknown = token;
    if (type == kControl || type == kDefined)
      tables.added[type == kControl ? 0 : 1].add({text, token});
  }
  add_scores(model, path, tables);
  const auto add_end = [&](const std::string& text, std::vector<std::int32_t>& tokens) {
    if (const auto found = tables.pairs.tokens.find(text); found != tables.pairs.tokens.end())
      tokens.push_back(found->second);
  };
  if (model.starts) add_end(model.start, tables.before);
  if (model.ends) add_end(model.end, tables.behind);
  tables.spaced = model.prefix;
  tables.normal_form =
      [form = PieceText{CharacterMap(model.characters, path), model.prefix, model.single_spaces}](
          std::string_view text, bool) { return form(text); };
  read_piece_texts(tables);
  return tables;
}

}  // namespace

std::string with_space_letters(std::string_view text) { return replaced(text, " ", kSpaceLetter); }

std::vector<std::int32_t> Unigram::encode(std::string_view word, const BytePairs& pieces) const {
  struct Path {
    float score = kNever;
    std::size_t begin = 0;  ///< of its last piece
    bool known = false;
  };
  std::vector<Path> paths(word.size() + 1);  // the best up to each byte
  paths[0].score = 0;
  for (std::size_t begin = 0, size = 0; begin < word.size(); begin += size) {
    const auto consider = [&](std::size_t end, float score) {
      score += paths[begin].score;
      if (!paths[end].known || score > paths[end].score) paths[end] = {score, begin, true};
    };
    size = first_character(word.substr(begin));
    bool alone = false;  // the character is a piece
    for (std::size_t end = begin + 1; end <= std::min(word.size(), begin + longest); ++end) {
      const auto found = pieces.tokens.find(std::string(word.substr(begin, end - begin)));
      if (found == pieces.tokens.end() || scores[found->second] == kNever) continue;
      consider(end, scores[found->second]);
      alone = alone || end == begin + size;
    }
    if (!alone) consider(begin + size, unknown);
  }
  std::vector<std::pair<std::size_t, std::size_t>> parts;  // first and behind the last byte
  for (std::size_t end = word.size(); end > 0; end = paths[end].begin)
    parts.emplace_back(paths[end].begin, end);
  std::vector<std::int32_t> tokens;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part)
    pieces.append(word.substr(part->first, part->second - part->first), tokens);
  return tokens;
}

void read_piece_texts(TokenizerTables& tables) {
  BytePairs& pairs = tables.pairs;
  pairs.byte_tokens.fill(-1);
  bool inner = false;  // a piece goes on behind a word's end
  for (std::size_t token = 0; token < pairs.texts.size(); ++token) {
    std::string& text = pairs.texts[token];
    text = replaced(text, kSpaceLetter, " ");
    for (std::size_t i = 1; i < text.size(); ++i)
      inner = inner || (text[i] == ' ' && text[i - 1] != ' ');
    unsigned byte = 0;
    if (text.size() == 6 && std::sscanf(text.c_str(), "<0x%2X>", &byte) == 1) {
      pairs.byte_tokens[byte & 0xFF] = static_cast<std::int32_t>(token);
      text = std::string(1, static_cast<char>(byte));
    }
  }
  if (!inner) tables.patterns.emplace_back(fmt::format("{0}*[^{0}]+", kSpaceLetter));
}

TokenizerTables read_sentence_pieces(const std::string& path) {
  return tables_of(is_gguf(path) ? read_gguf_pieces(path) : read_model_file(path), path);
}

}  // namespace alpa
