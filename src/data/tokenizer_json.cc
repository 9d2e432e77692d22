// src/data/tokenizer_json.cc — reads tokenizer.json of Hugging Face's tokenizers
#include "src/data/tokenizer_json.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "src/base/file.h"
#include "src/base/json_place.h"
#include "src/data/utf8.h"
#include "src/train/gguf_tokenizer.h"

namespace alpa {
namespace {

constexpr FileKind kTokenizerFile{"", 256 << 20};

/// Whether the member is there and not null.
bool has(const JsonPlace& object, const char* key) {
  return object.contains(key) && !object.at(key).is_null();
}

bool is_true(const JsonPlace& object, const char* key) {
  return has(object, key) && object.at(key).boolean();
}

/// Throws Error if the member is true.
void refuse_true(const JsonPlace& object, const char* key) {
  if (is_true(object, key)) object.at(key).bad("false; alpa has nothing else");
}

/// Throws Error unless the member is absent, null or "".
void refuse_text(const JsonPlace& object, const char* key) {
  if (has(object, key) && !object.at(key).text().empty())
    object.at(key).bad("none; alpa has nothing else");
}

std::string type_of(const JsonPlace& object) { return object.at("type").text(); }

/// The pattern of a Split, a regular expression.
WordPattern split_pattern(const JsonPlace& part) {
  const JsonPlace regex = part.at("pattern").at("Regex"), behavior = part.at("behavior");
  if (behavior.text() != "Isolated") behavior.bad("\"Isolated\"");
  refuse_true(part, "invert");
  return regex.parsed([](const std::string& text) { return WordPattern(text); });
}

/// The pattern of a part of a pre-tokenizer before its last.
WordPattern part_pattern(const JsonPlace& part) {
  const std::string type = type_of(part);
  if (type == "Split") return split_pattern(part);
  if (type != "Digits") part.at("type").bad("\"Split\" or \"Digits\" before \"ByteLevel\"");
  return WordPattern(is_true(part, "individual_digits") ? R"(\p{N})" : R"(\p{N}+)");
}

/// The patterns of words: those of Split, Digits and ByteLevel, of which the last ends the list.
std::vector<WordPattern> read_patterns(const JsonPlace& place) {
  if (place.is_null()) place.bad("ByteLevel, or a Sequence that ends in it");
  std::vector<JsonPlace> parts = {place};
  if (type_of(place) == "Sequence")
    parts = place.at("pretokenizers").items();
  else if (type_of(place) != "ByteLevel")
    place.at("type").bad("\"ByteLevel\" or \"Sequence\"");
  if (parts.empty()) place.at("pretokenizers").refuse("is empty; expected ByteLevel at its end");
  std::vector<WordPattern> patterns;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) patterns.push_back(part_pattern(parts[i]));
  const JsonPlace& last = parts.back();
  if (type_of(last) != "ByteLevel") last.at("type").bad("\"ByteLevel\"");
  refuse_true(last, "add_prefix_space");
  if (!has(last, "use_regex") || last.at("use_regex").boolean()) patterns.emplace_back(kGpt2Words);
  return patterns;
}

/// "a b" or ["a", "b"].
std::array<std::string, 2> read_pair(const JsonPlace& merge) {
  constexpr const char* kExpected = "two parts of a token, \"a b\" or [\"a\", \"b\"]";
  if (merge.is_list()) {
    const std::vector<JsonPlace> parts = merge.items();
    if (parts.size() != 2) merge.refuse(fmt::format("expected {}", kExpected));
    return {parts[0].text(), parts[1].text()};
  }
  const std::string both = merge.text();
  const std::size_t space = both.find(' ');
  if (space == both.npos || both.find(' ', space + 1) != both.npos) merge.bad(kExpected);
  return {both.substr(0, space), both.substr(space + 1)};
}

BytePairs read_pairs(const JsonPlace& model, const nlohmann::json& json) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    refuse_text(model, key);
  const bool characters = is_true(model, "byte_fallback");  // of SentencePiece
  if (has(model, "dropout") && model.at("dropout").number() != 0) model.at("dropout").bad("0");
  model.at("vocab"), model.at("merges");
  BytePairs pairs = read_vocabulary(json.at("vocab"), model.origin() + ": model.vocab", characters);
  pairs.characters = characters;
  if (characters && has(model, "unk_token"))
    if (const auto found = pairs.tokens.find(model.at("unk_token").text());
        found != pairs.tokens.end())
      pairs.unknown = found->second;
  pairs.whole_words = is_true(model, "ignore_merges");
  std::size_t number = 0;
  for (const JsonPlace& merge : model.at("merges").items()) {
    const auto [left, right] = read_pair(merge);
    add_merge(pairs, left, right, fmt::format("{}: model.merges[{}]", model.origin(), number++),
              "model.vocab");
  }
  return pairs;
}

/// BERT's word pieces, and its words.
void read_word_pieces(const JsonPlace& model, const nlohmann::json& json, TokenizerTables& tables) {
  WordPieces& pieces = tables.word_pieces.emplace();
  if (has(model, "continuing_subword_prefix"))
    pieces.prefix = model.at("continuing_subword_prefix").text();
  if (has(model, "max_input_chars_per_word"))
    pieces.most_letters = model.at("max_input_chars_per_word").whole(1, kMaxVocabulary);
  const JsonPlace unknown = model.at("unk_token");
  model.at("vocab");
  tables.pairs = read_vocabulary(json.at("vocab"), model.origin() + ": model.vocab", true);
  const auto found = tables.pairs.tokens.find(unknown.text());
  if (found == tables.pairs.tokens.end()) unknown.bad("a token of model.vocab");
  pieces.unknown = found->second;
}

/// The normal form of BERT's texts.
BertText bert_text(const JsonPlace& normalizer) {
  const auto flag = [&](const char* key, bool otherwise) {
    return has(normalizer, key) ? normalizer.at(key).boolean() : otherwise;
  };
  BertText text{.clean = flag("clean_text", true),
                .chinese = flag("handle_chinese_chars", true),
                .lower = flag("lowercase", true)};
  text.unmarked = flag("strip_accents", text.lower);
  return text;
}

/// Throws Error unless the text at the place is this one.
void expect(const JsonPlace& place, std::string_view text) {
  if (place.text() != text) place.bad(fmt::format("\"{}\"", text));
}

/// SentencePiece's texts: letters in place of spaces, and maybe one before all.
void read_space_letters(const JsonPlace& file, TokenizerTables& tables) {
  std::vector<JsonPlace> parts;
  if (has(file, "normalizer")) {
    const JsonPlace normalizer = file.at("normalizer");
    parts = type_of(normalizer) == "Sequence" ? normalizer.at("normalizers").items()
                                              : std::vector{normalizer};
  }
  std::string prepended = "never";
  for (const JsonPlace& part : parts) {
    const std::string type = type_of(part);
    if (type == "Prepend")
      expect(part.at("prepend"), kSpaceLetter), prepended = "everywhere";
    else if (type == "Replace")
      expect(part.at("pattern").at("String"), " "), expect(part.at("content"), kSpaceLetter);
    else
      part.at("type").bad("\"Prepend\" or \"Replace\" beside byte_fallback");
  }
  const bool metaspace =
      has(file, "pre_tokenizer") && type_of(file.at("pre_tokenizer")) == "Metaspace";
  if (metaspace) {
    const JsonPlace spaces = file.at("pre_tokenizer");
    expect(spaces.at("replacement"), kSpaceLetter);
    prepended = has(spaces, "prepend_scheme") ? spaces.at("prepend_scheme").text() : "always";
  } else if (has(file, "pre_tokenizer")) {  // cuts at spaces, of which none is left
    if (type_of(file.at("pre_tokenizer")) != "Split")
      file.at("pre_tokenizer").at("type").bad("\"Metaspace\" or \"Split\" beside byte_fallback");
    expect(file.at("pre_tokenizer").at("pattern").at("String"), " ");
  }
  if (parts.empty() && !metaspace)
    file.at("pre_tokenizer").bad("Metaspace beside byte_fallback, or a normalizer Replace");
  tables.normal_form = [prepended](std::string_view text, bool first) {
    std::string letters = with_space_letters(text);
    const bool there = letters.starts_with(kSpaceLetter);
    if (prepended == "everywhere" || (prepended == "always" && !there) ||
        (prepended == "first" && first && !there))
      letters.insert(0, kSpaceLetter);
    return letters;
  };
  tables.spaced = prepended != "never";
}

void read_words(const JsonPlace& file, TokenizerTables& tables) {
  if (tables.pairs.characters) return read_space_letters(file, tables);
  const bool pieces = tables.word_pieces.has_value();
  if (has(file, "normalizer")) {
    const JsonPlace normalizer = file.at("normalizer");
    const std::string type = type_of(normalizer);
    if (type == "BertNormalizer" && pieces)
      tables.normal_form = [form = bert_text(normalizer)](std::string_view text, bool) {
        return form(text);
      };
    else if (type == "NFC")
      tables.normal_form = [](std::string_view text, bool) { return composed(text); };
    else
      normalizer.at("type").bad(pieces ? "\"BertNormalizer\" or \"NFC\", or no normalizer"
                                       : "\"NFC\", or no normalizer");
  }
  const JsonPlace words = file.at("pre_tokenizer");
  if (!pieces) {
    tables.patterns = read_patterns(words);
    return;
  }
  if (words.is_null() || type_of(words) != "BertPreTokenizer")
    words.refuse("expected a \"BertPreTokenizer\" beside WordPiece");
  tables.patterns.emplace_back(kBertWords);
}

/// The text of a piece, as in the middle of others: with a space before a word.
void space_words(TokenizerTables& tables) {
  const std::string& prefix = tables.word_pieces->prefix;
  for (std::string& text : tables.pairs.texts)
    text = text.starts_with(prefix) ? text.substr(prefix.size()) : " " + text;
  tables.spaced = true;
}

/// The characters of Unicode's White_Space.
constexpr std::string_view kSpaces[] = {
    " ",      "\t",     "\n",     "\v",     "\f",     "\r",     "\u0085", "\u00a0", "\u1680",
    "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008",
    "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};

/// The text without white space at its end, or at its start.
std::string_view trimmed(std::string_view text, bool at_end) {
  for (;;) {
    const auto* const space = std::ranges::find_if(kSpaces, [&](std::string_view s) {
      return at_end ? text.ends_with(s) : text.starts_with(s);
    });
    if (space == std::end(kSpaces)) return text;
    at_end ? text.remove_suffix(space->size()) : text.remove_prefix(space->size());
  }
}

/// Adds a token that is found in texts.
void read_added(const JsonPlace& place, TokenizerTables& tables) {
  refuse_true(place, "single_word");
  const std::string text = place.at("content").text();
  if (text.empty()) place.at("content").bad("a text of at least one byte");
  const auto token = static_cast<std::int32_t>(place.at("id").count(kMaxVocabulary - 1));
  std::vector<std::string>& texts = tables.pairs.texts;
  texts.resize(std::max(texts.size(), static_cast<std::size_t>(token) + 1));
  tables.pairs.add(text, token, place.origin());
  tables.added[is_true(place, "normalized") ? 1 : 0].add(
      {text, token, is_true(place, "lstrip"), is_true(place, "rstrip")});
}

/// A template's tokens around the text.
void read_template(const JsonPlace& processor, TokenizerTables& tables) {
  const JsonPlace single = processor.at("single");
  bool behind = false;
  for (const JsonPlace& part : single.items()) {
    if (part.contains("Sequence")) {
      if (behind) part.bad("one Sequence");
      behind = true;
      continue;
    }
    const std::string name = part.at("SpecialToken").at("id").text();
    for (const JsonPlace& id : processor.at("special_tokens").at(name.c_str()).at("ids").items())
      (behind ? tables.behind : tables.before)
          .push_back(static_cast<std::int32_t>(id.count(tables.pairs.texts.size() - 1)));
  }
  if (!behind) single.bad("a Sequence");
}

void read_processor(const JsonPlace& processor, TokenizerTables& tables) {
  const std::string type = type_of(processor);
  if (type == "TemplateProcessing") return read_template(processor, tables);
  if (type == "BertProcessing") {  // pairs of text and number
    for (const auto& [key, tokens] : {std::pair("cls", &tables.before), {"sep", &tables.behind}}) {
      const std::vector<JsonPlace> pair = processor.at(key).items();
      if (pair.size() != 2) processor.at(key).refuse("expected a text and a number");
      tokens->push_back(static_cast<std::int32_t>(pair[1].count(tables.pairs.texts.size() - 1)));
    }
    return;
  }
  if (type == "Sequence") {
    for (const JsonPlace& part : processor.at("processors").items()) read_processor(part, tables);
    return;
  }
  if (type != "ByteLevel")  // which changes offsets alone
    processor.at("type").bad(
        "\"ByteLevel\", \"TemplateProcessing\", \"BertProcessing\" or \"Sequence\"");
}

}  // namespace

void AddedTokens::add(Added added) {
  std::vector<Added>& row = by_first_byte_[static_cast<unsigned char>(added.text[0])];
  const auto shorter = std::find_if(row.begin(), row.end(), [&](const Added& other) {
    return other.text.size() < added.text.size();
  });
  row.insert(shorter, std::move(added));
}

const AddedTokens::Added* AddedTokens::at(std::string_view text) const {
  for (const Added& added : by_first_byte_[static_cast<unsigned char>(text[0])])
    if (text.starts_with(added.text)) return &added;
  return nullptr;
}

std::vector<AddedTokens::Piece> AddedTokens::cut(std::string_view text) const {
  std::vector<Piece> pieces;
  std::size_t start = 0;  // of what belongs to no token yet
  for (std::size_t i = 0; i < text.size();) {
    const Added* added = at(text.substr(i));
    if (added == nullptr) {
      ++i;
      continue;
    }
    std::size_t begin = i, end = i += added->text.size();
    if (added->takes_left) begin = std::max(start, trimmed(text.substr(0, begin), true).size());
    if (added->takes_right) end = text.size() - trimmed(text.substr(end), false).size();
    if (begin > start) pieces.push_back({text.substr(start, begin - start)});
    pieces.push_back({text.substr(begin, end - begin), added->token});
    start = end;
  }
  if (start < text.size()) pieces.push_back({text.substr(start)});
  return pieces;
}

TokenizerTables read_tokenizer_json(const std::string& path) {
  if (is_gguf(path) && has_sentence_pieces(GgufFile(path))) return read_sentence_pieces(path);
  const nlohmann::json json = is_gguf(path) ? tokenizer_of(GgufFile(path))
                                            : parse_json(read_file(path, kTokenizerFile), path);
  const JsonPlace file(json, path);
  const JsonPlace model = file.at("model");
  TokenizerTables tables;
  // Files of before 2021 do not say it, such as GPT-2's.
  const std::string type = model.contains("type") ? type_of(model) : "BPE";
  if (type == "WordPiece")
    read_word_pieces(model, json.at("model"), tables);
  else if (type == "BPE")
    tables.pairs = read_pairs(model, json.at("model"));
  else
    model.at("type").bad("\"BPE\" or \"WordPiece\"");
  read_words(file, tables);
  const char* const decoder = tables.word_pieces        ? "WordPiece"
                              : tables.pairs.characters ? "Sequence"
                                                        : "ByteLevel";
  if (has(file, "decoder") && type_of(file.at("decoder")) != decoder &&
      !(tables.pairs.characters && type_of(file.at("decoder")) == "Metaspace"))
    file.at("decoder").at("type").bad(fmt::format("\"{}\"", decoder));
  if (has(file, "added_tokens"))
    for (const JsonPlace& added : file.at("added_tokens").items()) read_added(added, tables);
  // Truncation and padding of the file are those of its last use; transformers sets them anew.
  if (has(file, "post_processor")) read_processor(file.at("post_processor"), tables);
  if (tables.word_pieces) space_words(tables);
  if (tables.pairs.characters) read_piece_texts(tables);
  return tables;
}

}  // namespace alpa
