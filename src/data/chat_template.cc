// src/data/chat_template.cc — chat templates of Hugging Face's folders
#include <filesystem>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "alpa/data/text.h"
#include "src/base/file.h"
#include "src/base/json_place.h"
#include "src/data/jinja_run.h"
#include "src/train/gguf_file.h"

namespace alpa {

struct ChatTemplate::Impl {
  jinja::Source source;
  jinja::Node root;
  jinja::Members tokens;
};

namespace {

constexpr FileKind kTemplateFile{"", 1 << 20};
constexpr FileKind kConfigFile{"", 64 << 20};

/// UTF-8 with "\n" as the end of lines.
std::string template_text(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != '\r')
      result += text[i];
    else if (i + 1 == text.size() || text[i + 1] != '\n')
      result += '\n';
  return valid_utf8(result);
}

bool is_file(const std::string& path) {
  std::error_code unreadable;  // is told by who opens it
  return std::filesystem::exists(path, unreadable);
}

/// Adds the members that are special tokens: texts, or objects with such "content".
void read_tokens(const nlohmann::json& file, std::map<std::string, std::string>& tokens) {
  for (const auto& [name, value] : file.items()) {
    const bool whole = value.is_object() && value.contains("content");
    const nlohmann::json& token = whole ? value.at("content") : value;
    if (name.ends_with("_token") && token.is_string()) tokens[name] = token.get<std::string>();
  }
}

/// The text at "chat_template" of a configuration; none if there is none.
std::optional<std::string> configured(const JsonPlace& file) {
  if (!file.contains("chat_template") || file.at("chat_template").is_null()) return {};
  const JsonPlace place = file.at("chat_template");
  if (!place.is_list()) return place.text();
  for (const JsonPlace& entry : place.items())
    if (entry.at("name").text() == "default") return entry.at("template").text();
  place.refuse("no template is named \"default\"; alpa uses this one");
}

/// The template of a GGUF file.
std::optional<ChatTemplate> find_in_gguf(const std::string& path) {
  constexpr const char* kTemplate = "tokenizer.chat_template";
  const GgufFile file(path);
  const JsonPlace metadata(file.metadata(), path);
  if (!metadata.contains(kTemplate)) return {};
  std::map<std::string, std::string> tokens;
  for (const auto& [key, name] : {std::pair("tokenizer.ggml.bos_token_id", "bos_token"),
                                  {"tokenizer.ggml.eos_token_id", "eos_token"},
                                  {"tokenizer.ggml.unknown_token_id", "unk_token"},
                                  {"tokenizer.ggml.padding_token_id", "pad_token"}}) {
    if (!metadata.contains(key)) continue;
    const std::vector<JsonPlace> texts = metadata.at("tokenizer.ggml.tokens").items();
    if (texts.empty()) metadata.at("tokenizer.ggml.tokens").bad("at least one token");
    tokens[name] = texts[metadata.at(key).count(texts.size() - 1)].text();
  }
  return ChatTemplate::parse(metadata.at(kTemplate).text(), path + ": " + kTemplate, tokens);
}

}  // namespace

ChatTemplate ChatTemplate::parse(const std::string& text, const std::string& path,
                                 const std::map<std::string, std::string>& tokens) {
  require(text.size() <= kTemplateFile.max_bytes, "{}: a chat template is larger than 1 MiB", path);
  jinja::Source source{template_text(text), path};
  jinja::Node root = jinja::parse_template(source);
  jinja::Members variables;
  for (const auto& [name, token] : tokens) variables.emplace_back(name, valid_utf8(token));
  return ChatTemplate(
      std::make_shared<const Impl>(Impl{std::move(source), std::move(root), std::move(variables)}));
}

std::optional<ChatTemplate> ChatTemplate::find(const std::string& folder) {
  if (is_gguf(folder)) return find_in_gguf(folder);
  std::map<std::string, std::string> tokens;
  std::optional<std::string> text;
  const std::string config = folder + "/tokenizer_config.json";
  std::string path = config;
  for (const std::string& file : {folder + "/special_tokens_map.json", config}) {
    if (!is_file(file)) continue;
    const nlohmann::json json = parse_json(read_file(file, kConfigFile), file);
    read_tokens(json, tokens);
    if (file == config) text = configured(JsonPlace(json, file));
  }
  if (const std::string file = folder + "/chat_template.jinja"; is_file(file))
    path = file, text = read_file(file, kTemplateFile);
  if (!text.has_value()) return {};
  return parse(*text, path, tokens);
}

ChatTemplate ChatTemplate::of_folder(const std::string& folder) {
  std::optional<ChatTemplate> found = find(folder);
  require(found.has_value(),
          "{}: has no chat template: neither chat_template.jinja nor \"chat_template\" in "
          "tokenizer_config.json, nor \"tokenizer.chat_template\" of a GGUF file; take a model "
          "that was trained to chat, or add the file",
          excerpt(folder));
  return *std::move(found);
}

ChatText ChatTemplate::render(std::span<const ChatMessage> messages,
                              bool add_generation_prompt) const {
  jinja::Work work;
  jinja::List list;
  for (const auto& [role, content] : messages)
    list.push_back(
        make_mapping({{"role", valid_utf8(role)}, {"content", valid_utf8(content)}}, work));
  jinja::Members variables = impl_->tokens;
  variables.emplace_back("messages", make_list(std::move(list), work));
  variables.emplace_back("add_generation_prompt", add_generation_prompt);
  for (const char* absent : {"tools", "documents"}) variables.emplace_back(absent, nullptr);
  auto [text, generated] = jinja::run_template(impl_->source, impl_->root, std::move(variables));
  return {std::move(text), std::move(generated)};
}

}  // namespace alpa
