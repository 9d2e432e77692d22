// src/data/chat_template.cc — the chat templates of folders of Hugging Face
#include <filesystem>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "alpa/data/text.h"
#include "jinja.h"
#include "src/base/file.h"
#include "src/base/json_place.h"

namespace alpa {
namespace {

constexpr FileKind kTemplateFile{"", 16 << 20};

bool has_file(const std::string& path) {
  std::error_code unreadable;  // is told by who opens it
  return std::filesystem::exists(path, unreadable);
}

/// The default template of tokenizer_config.json, which has one, or a list of them by name.
std::optional<std::string> template_in(const JsonPlace& config) {
  if (!config.contains("chat_template")) return {};
  const JsonPlace place = config.at("chat_template");
  if (place.is_null()) return {};
  if (!place.is_list()) return place.text();
  for (const JsonPlace& item : place.items())
    if (item.at("name").text() == "default") return item.at("template").text();
  place.refuse("no template is called \"default\"");
}

/// Special tokens, "bos_token" for instance, by the names that templates know.
std::map<std::string, std::string> tokens_in(const JsonPlace& config) {
  std::map<std::string, std::string> tokens;
  for (const auto& [name, place] : config.members()) {
    if (!name.ends_with("_token") || place.is_null()) continue;
    if (place.contains("content"))  // the token and how it is found
      tokens[name] = place.at("content").text();
    else if (name != "add_bos_token" && name != "add_eos_token")
      tokens[name] = place.text();
  }
  return tokens;
}

}  // namespace

struct ChatTemplate::Impl {
  std::string origin;
  std::vector<jinja::Statement> statements;
  std::map<std::string, std::string> tokens;
};

ChatTemplate ChatTemplate::parse(std::string_view text, const std::string& path,
                                 const std::map<std::string, std::string>& tokens) {
  ChatTemplate result;
  result.impl_ = std::make_shared<const Impl>(Impl{path, jinja::parse(text, path), tokens});
  return result;
}

std::optional<ChatTemplate> ChatTemplate::find(const std::string& folder) {
  const std::string own = folder + "/chat_template.jinja", path = folder + "/tokenizer_config.json";
  const nlohmann::json config =
      has_file(path) ? parse_json(read_file(path, kTemplateFile), path) : nlohmann::json::object();
  const JsonPlace place(config, path);
  if (has_file(own)) return parse(read_file(own, kTemplateFile), own, tokens_in(place));
  const std::optional<std::string> text = template_in(place);
  if (!text) return {};
  return parse(*text, path + ": chat_template", tokens_in(place));
}

std::string ChatTemplate::render(std::span<const ChatMessage> messages,
                                 bool add_generation_prompt) const {
  jinja::Json variables = {{"messages", jinja::Json::array()},
                           {"add_generation_prompt", add_generation_prompt},
                           {"tools", nullptr},
                           {"documents", nullptr}};
  for (const ChatMessage& message : messages)
    variables["messages"].push_back({{"role", message.role}, {"content", message.content}});
  for (const auto& [name, token] : impl_->tokens) variables[name] = token;
  return jinja::run(impl_->statements, variables, impl_->origin);
}

}  // namespace alpa
