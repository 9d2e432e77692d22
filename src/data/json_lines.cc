// src/data/json_lines.cc — examples for tuning from files of a JSON object per line
#include <algorithm>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "alpa/data/text.h"
#include "src/base/file.h"
#include "src/base/json_place.h"

namespace alpa {
namespace {

constexpr FileKind kJsonLines{"", std::int64_t{4} << 30};

/// Adds tokens to an example: those that are `learnt` are predicted.
void append(TextExample& example, const std::vector<std::int32_t>& tokens, bool learnt) {
  example.tokens.insert(example.tokens.end(), tokens.begin(), tokens.end());
  example.learnt.resize(example.tokens.size(), learnt);
}

ChatMessage message_of(const JsonPlace& place) {
  ChatMessage message{.role = place.at("role").text(), .content = ""};
  const JsonPlace content = place.at("content");
  if (!content.is_list()) return message.content = content.text(), message;
  for (const JsonPlace& part : content.items()) {  // as OpenAI's form has it
    const std::string kind = part.at("type").text();
    if (kind != "text") part.at("type").bad("\"text\", which alone can be learnt");
    message.content += part.at("text").text();
  }
  return message;
}

/// A conversation as its template writes it, up to some message.
class Conversation {
 public:
  Conversation(const ChatTemplate& chat, std::vector<ChatMessage> messages)
      : chat_(chat), messages_(std::move(messages)) {}

  std::size_t size() const { return messages_.size(); }
  bool is_reply(std::size_t i) const { return messages_[i].role == "assistant"; }
  /// The first messages.
  std::string text(std::size_t count) const {
    return chat_.render(std::span(messages_).first(count)).text;
  }
  /// The messages before a reply, and the words that begin it.
  std::string prompt(std::size_t reply) const {
    return chat_.render(std::span(messages_).first(reply), true).text;
  }

 private:
  const ChatTemplate& chat_;
  std::vector<ChatMessage> messages_;
};

/// The whole conversation as one example whose replies are learnt; none if the template writes a
/// message in another way once others follow.
std::optional<TextExample> in_one(const Conversation& c, const Tokenizer& tokenizer) {
  TextExample example;
  const std::string whole = c.text(c.size());
  std::size_t end = 0;
  const auto add = [&](std::size_t until, bool learnt) {
    append(example, tokenizer.encode(whole.substr(end, until - end)), learnt);
    end = until;
  };
  for (std::size_t i = 0; i < c.size(); ++i) {
    if (!c.is_reply(i)) continue;
    const std::string prompt = c.prompt(i), through = c.text(i + 1);
    if (!through.starts_with(prompt) || !whole.starts_with(through) || prompt.size() < end)
      return {};
    add(prompt.size(), false), add(through.size(), true);
  }
  add(whole.size(), false);
  return example;
}

/// Each reply as an example behind the messages before it.
void add_replies(const Conversation& c, const Tokenizer& tokenizer,
                 std::vector<TextExample>& examples) {
  for (std::size_t i = 0; i < c.size(); ++i) {
    if (!c.is_reply(i)) continue;
    const std::string prompt = c.prompt(i), through = c.text(i + 1);
    if (!through.starts_with(prompt))
      fail(
          "the chat template writes the messages before [{}] in another way once it follows, so "
          "what is to be learnt is unknown",
          i);
    TextExample& example = examples.emplace_back();
    append(example, tokenizer.encode(prompt), false);
    append(example, tokenizer.encode(through.substr(prompt.size())), true);
  }
}

void add_conversation(const JsonPlace& place, const Tokenizer& tokenizer,
                      const JsonLinesOptions& options, std::vector<TextExample>& examples) {
  if (!options.chat)
    place.refuse(
        "there is no chat template; the tokenizer's folder has it as chat_template.jinja or in "
        "tokenizer_config.json, and a GGUF file as tokenizer.chat_template");
  std::vector<ChatMessage> messages;
  for (const JsonPlace& message : place.items()) messages.push_back(message_of(message));
  const Conversation conversation(*options.chat, std::move(messages));
  std::size_t replies = 0;
  for (std::size_t i = 0; i < conversation.size(); ++i) replies += conversation.is_reply(i) ? 1 : 0;
  if (replies == 0)
    place.refuse("no message is of role \"assistant\", so there is nothing to learn");
  place.checked([&] {
    if (std::optional<TextExample> example = in_one(conversation, tokenizer))
      examples.push_back(std::move(*example));
    else
      add_replies(conversation, tokenizer, examples);
    return true;
  });
}

void add_line(const JsonPlace& line, const Tokenizer& tokenizer, const JsonLinesOptions& options,
              std::vector<TextExample>& examples) {
  if (line.contains("messages"))
    return add_conversation(line.at("messages"), tokenizer, options, examples);
  TextExample example;
  if (line.contains("text")) {
    append(example, tokenizer.encode_whole(line.at("text").text()), true);
  } else {
    require(line.contains("prompt") && line.contains("completion"),
            "{}: expected an object with \"messages\", \"text\", or \"prompt\" and \"completion\"",
            line.origin());
    append(example, tokenizer.encode_whole(line.at("prompt").text()), false);
    append(example, tokenizer.encode(line.at("completion").text()), true);
  }
  if (options.end) append(example, {*options.end}, true);
  examples.push_back(std::move(example));
}

}  // namespace

std::vector<TextExample> read_json_lines(const std::string& path, const Tokenizer& tokenizer,
                                         const JsonLinesOptions& options) {
  const std::string text = read_file(path, kJsonLines);
  std::vector<TextExample> examples;
  int number = 0;
  for (std::size_t start = 0; start < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::string line = text.substr(start, end - start);
    start = end + 1;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const std::string origin = fmt::format("{}: line {}", path, number + 1);
    const nlohmann::json json = parse_json(line, origin);
    add_line(JsonPlace(json, origin), tokenizer, options, examples);
  }
  require(!examples.empty(), "{}: has no lines; write a JSON object on each", path);
  return examples;
}

}  // namespace alpa
