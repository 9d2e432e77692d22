// src/train/gguf_tokenizer.cc — tokenizers from GGUF's metadata to tokenizer.json, and back
#include "src/train/gguf_tokenizer.h"

#include <limits>

#include "src/base/json_place.h"

namespace alpa {
namespace {

using Json = nlohmann::json;

/// Kinds of tokens that are not found by merges, and the usual one.
enum TokenType : int { kNormal = 1, kControl = 3, kAdded = 4, kUnused = 5 };

constexpr const char* kAdvice = "give --tokenizer a folder with tokenizer.json";

/// Words by their name in `tokenizer.ggml.pre`: single digits first or not, a pattern in place of
/// GPT-2's or none, whether words that are tokens are not made of others, and the normal form.
struct Words {
  const char* pre;
  bool digits = false;
  const char* split = nullptr;
  bool whole_words = false, composed = false;
};
constexpr const char* kLlamaWords =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwenWords =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr Words kWords[] = {{"gpt-2"},
                            {"phi-2"},
                            {"smollm", true},
                            {"starcoder", true},
                            {"refact", true},
                            {"llama-bpe", false, kLlamaWords, true},
                            {"llama3", false, kLlamaWords, true},
                            {"dbrx", false, kLlamaWords},
                            {"qwen2", false, kQwenWords, false, true},
                            {"deepseek-r1-qwen", false, kQwenWords, false, true}};

/// As tokenizer.json has it.
Json pre_tokenizer(const Words& words) {
  Json parts = Json::array();
  if (words.digits) parts.push_back({{"type", "Digits"}, {"individual_digits", true}});
  if (words.split != nullptr)
    parts.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", words.split}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  parts.push_back({{"type", "ByteLevel"},
                   {"add_prefix_space", false},
                   {"trim_offsets", true},
                   {"use_regex", words.split == nullptr}});
  return {{"type", "Sequence"}, {"pretokenizers", parts}};
}

/// What decides words in a `pre_tokenizer`, as a list.
Json deciding(const JsonPlace& place) {
  Json decisions = Json::array();
  const bool several = place.contains("pretokenizers");
  for (const JsonPlace& part : several ? place.at("pretokenizers").items() : std::vector{place}) {
    const std::string type = part.at("type").text();
    if (type == "Split") decisions.push_back(part.at("pattern").dump());
    if (type == "Digits" && part.at("individual_digits").boolean()) decisions.push_back("digits");
    if (type == "ByteLevel" && (!part.contains("use_regex") || part.at("use_regex").boolean()))
      decisions.push_back("GPT-2");
  }
  return decisions;
}

const Words& words_named(const JsonPlace& metadata) {
  const JsonPlace pre = metadata.at("tokenizer.ggml.pre");
  for (const Words& words : kWords)
    if (pre.text() == words.pre) return words;
  std::string known;
  for (const Words& words : kWords) known += fmt::format("{}, ", words.pre);
  pre.bad(fmt::format("one of {}whose words alpa knows; {}", known, kAdvice));
}

/// The tokens at both ends of a text.
Json processor_of(const JsonPlace& metadata, const Json& tokens, const Words& words) {
  Json single = Json::array(), special = Json::object();
  const auto add = [&](const char* flag, const char* token, bool otherwise) {
    if (!(metadata.contains(flag) ? metadata.at(flag).boolean() : otherwise)) return;
    const std::uint64_t id = metadata.at(token).count(tokens.size() - 1);
    single.push_back({{"SpecialToken", {{"id", tokens[id]}}}});
    special[tokens[id].get<std::string>()] = {{"ids", {id}}};
  };
  add("tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id",
      words.whole_words && metadata.contains("tokenizer.ggml.bos_token_id"));
  single.push_back({{"Sequence", Json::object()}});
  add("tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id", false);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", special}};
}

/// The name of the words of a tokenizer.json.
const char* name_of_words(const JsonPlace& tokenizer) {
  const Json given = deciding(tokenizer.at("pre_tokenizer"));
  const bool whole = tokenizer.at("model").contains("ignore_merges") &&
                     tokenizer.at("model").at("ignore_merges").boolean();
  const std::string none;
  for (const Words& words : kWords) {
    const Json known = pre_tokenizer(words);
    if (deciding(JsonPlace(known, none)) == given && words.whole_words == whole) return words.pre;
  }
  tokenizer.at("pre_tokenizer")
      .refuse(
          "cuts words in a way that GGUF has no name for; save a "
          "folder or a safetensors file");
}

/// Tokens of the model, by number, with their types; those that the tokenizer lacks are unused.
struct TokenTable {
  std::vector<std::string> texts;
  std::vector<int> types;

  void set(const JsonPlace& number, const std::string& text, int type) {
    const std::uint64_t token = number.count(texts.size() - 1);
    texts[token] = text;
    types[token] = type;
  }
};

TokenTable tokens_of(const JsonPlace& file, std::int64_t vocabulary) {
  TokenTable table;
  for (std::int64_t i = 0; i < vocabulary; ++i) {
    table.texts.push_back(fmt::format("[PAD{}]", i));
    table.types.push_back(kUnused);
  }
  for (const auto& [text, number] : file.at("model").at("vocab").members())
    table.set(number, text, kNormal);
  if (file.contains("added_tokens"))
    for (const JsonPlace& added : file.at("added_tokens").items()) {
      const bool special = added.contains("special") && added.at("special").boolean();
      table.set(added.at("id"), added.at("content").text(), special ? kControl : kAdded);
    }
  return table;
}

std::string merge_text(const JsonPlace& merge) {
  if (!merge.is_list()) return merge.text();
  std::string text;
  for (const JsonPlace& part : merge.items()) text += (text.empty() ? "" : " ") + part.text();
  return text;
}

/// Adds the first tokens of the template at the ends of a text.
void add_ends(const JsonPlace& processor, nlohmann::ordered_json& metadata) {
  if (processor.contains("processors"))
    for (const JsonPlace& part : processor.at("processors").items()) add_ends(part, metadata);
  if (!processor.contains("single")) return;
  const char* end = "bos";
  for (const JsonPlace& part : processor.at("single").items()) {
    if (part.contains("Sequence")) {
      end = "eos";
      continue;
    }
    const std::string name = part.at("SpecialToken").at("id").text();
    const JsonPlace ids = processor.at("special_tokens").at(name.c_str()).at("ids");
    for (const JsonPlace& id : ids.items())
      metadata[fmt::format("tokenizer.ggml.{}_token_id", end)] =
          id.count(std::numeric_limits<std::int32_t>::max());
    metadata[fmt::format("tokenizer.ggml.add_{}_token", end)] = true;
  }
}

}  // namespace

bool has_sentence_pieces(const GgufFile& file) {
  return file.metadata().value("tokenizer.ggml.model", Json()) == "llama";
}

Json tokenizer_of(const GgufFile& file) {
  const JsonPlace metadata(file.metadata(), file.path());
  const JsonPlace model = metadata.at("tokenizer.ggml.model");
  if (model.text() != "gpt2") model.bad(fmt::format("\"gpt2\" or \"llama\"; {}", kAdvice));
  const Words& words = words_named(metadata);
  const std::vector<JsonPlace> tokens = metadata.at("tokenizer.ggml.tokens").items();
  if (tokens.empty()) metadata.at("tokenizer.ggml.tokens").bad("at least one token");
  std::vector<JsonPlace> types;
  if (metadata.contains("tokenizer.ggml.token_type"))
    types = metadata.at("tokenizer.ggml.token_type").items();
  if (!types.empty() && types.size() != tokens.size())
    metadata.at("tokenizer.ggml.token_type")
        .refuse(fmt::format("has {} types of {} tokens", types.size(), tokens.size()));
  Json vocabulary = Json::object(), added = Json::array(), texts = Json::array();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const int type = types.empty() ? kNormal : types[i].integer();
    const std::string text = tokens[i].text();
    texts.push_back(text);
    if (type == kControl || type == kAdded)
      added.push_back({{"id", i}, {"content", text}, {"special", type == kControl}});
    else if (type != kUnused && !vocabulary.emplace(text, i).second)
      tokens[i].refuse(fmt::format("'{}' is there twice", excerpt(text)));
  }
  Json result = {{"model",
                  {{"type", "BPE"},
                   {"ignore_merges", words.whole_words},
                   {"vocab", vocabulary},
                   {"merges", file.metadata().value("tokenizer.ggml.merges", Json::array())}}},
                 {"pre_tokenizer", pre_tokenizer(words)},
                 {"added_tokens", added},
                 {"decoder", {{"type", "ByteLevel"}}},
                 {"post_processor", processor_of(metadata, texts, words)}};
  if (words.composed) result["normalizer"] = {{"type", "NFC"}};
  return result;
}

nlohmann::ordered_json gguf_tokenizer(const Json& tokenizer, const std::string& origin,
                                      std::int64_t vocabulary) {
  const JsonPlace file(tokenizer, origin);
  const TokenTable table = tokens_of(file, vocabulary);
  nlohmann::ordered_json metadata, merges = nlohmann::ordered_json::array();
  for (const JsonPlace& merge : file.at("model").at("merges").items())
    merges.push_back(merge_text(merge));
  metadata["tokenizer.ggml.model"] = "gpt2";
  metadata["tokenizer.ggml.pre"] = name_of_words(file);
  metadata["tokenizer.ggml.tokens"] = table.texts;
  metadata["tokenizer.ggml.token_type"] = table.types;
  metadata["tokenizer.ggml.merges"] = merges;
  metadata["tokenizer.ggml.add_bos_token"] = false;
  if (file.contains("post_processor")) add_ends(file.at("post_processor"), metadata);
  return metadata;
}

}  // namespace alpa
