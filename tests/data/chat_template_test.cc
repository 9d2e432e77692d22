// Chat templates against transformers: tests/golden/chat/templates.json holds what
// `render_jinja_template` of transformers 5.24 gives with jinja2 3.1.6. Mistakes and limits.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <filesystem>

#include "alpa/data/text.h"
#include "src/base/file.h"
#include "src/base/json.h"
#include "src/train/gguf_file.h"
#include "support/error_text.h"
#include "support/golden.h"
#include "support/temporary_file.h"

namespace chat_template_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

using Json = nlohmann::json;
using Messages = std::vector<ChatMessage>;
using Ranges = std::vector<std::pair<std::size_t, std::size_t>>;
using Names = std::map<std::string, std::string>;

const Json& golden() {
  static const Json json = parse_json(golden_text("chat/templates.json"), "templates.json");
  return json;
}

Messages messages_of(const Json& list) {
  Messages messages;
  for (const Json& m : list) messages.push_back({m.at("role"), m.at("content")});
  return messages;
}

std::string rendered(const std::string& text, const Messages& messages = {{"user", "Hi"}}) {
  return ChatTemplate::parse(text, "t").render(messages).text;
}

/// The mistake of a template "t", or of its run.
std::string mistake(const std::string& text) {
  return error_of([&] { rendered(text); });
}

/// A folder, gone at the end.
struct Folder {
  std::string path = "chat_template_test";
  Folder() { std::filesystem::create_directory(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path); }
  void write(const std::string& name, const std::string& text) const {
    const std::string_view part = text;
    write_file(path + "/" + name, {&part, 1});
  }
  std::string render() const {
    return ChatTemplate::of_folder(path).render(Messages{{"user", "Hi"}}).text;
  }
};

}  // namespace

TEST_CASE("conversations become the texts of transformers, with what the assistant says marked") {
  int marked = 0;
  for (const Json& row : golden().at("rendered")) {
    const std::string name = row.at("name");
    CAPTURE(name);
    const int conversation = row.at("conversation");
    CAPTURE(conversation);
    const ChatTemplate chat = ChatTemplate::parse(golden().at("templates").at(name), name,
                                                  golden().at("tokens").get<Names>());
    const Messages messages = messages_of(golden().at("conversations").at(conversation));
    const auto render = [&] { return chat.render(messages, row.at("prompt").get<bool>()); };
    if (row.contains("refusal")) {
      const std::string error = error_of([&] { render(); });
      CHECK(error.ends_with(": the template refuses the messages: " +
                            row.at("refusal").get<std::string>()));
      continue;
    }
    const ChatText text = render();
    CHECK(text.text == row.at("text").get<std::string>());
    CHECK(text.generated == row.at("generated").get<Ranges>());
    for (const auto& [begin, end] : text.generated)
      marked += text.text.substr(begin, end - begin) == "It is 4. </s>";
  }
  CHECK(marked == 2);
}

TEST_CASE("tags, expressions, filters, tests and methods give what Jinja's give") {
  const Messages messages = messages_of(golden().at("snippet_messages"));
  CHECK(golden().at("snippets").size() > 50);
  for (const Json& row : golden().at("snippets")) {
    const std::string source = row.at("template");
    CAPTURE(source);
    const ChatText text =
        ChatTemplate::parse(source, "snippet", {{"bos_token", "<s>"}}).render(messages);
    CHECK(text.text == row.at("text").get<std::string>());
    CHECK(text.generated ==
          (row.contains("generated") ? row.at("generated").get<Ranges>() : Ranges()));
  }
}

TEST_CASE("the date of today is written as strftime has it") {
  const std::string year = rendered("{{ strftime_now('%Y') }}");
  CHECK(year.size() == 4);
  CHECK(year >= "2024");
  CHECK(rendered("{{ strftime_now('a %% b') }}") == "a % b");
}

TEST_CASE("messages that are no UTF-8 are rendered with U+FFFD") {
  CHECK(rendered("{{ messages[0].content[1:] }}", {{"user",
                                                    "a\xff"
                                                    "b"}}) ==
        "\xef\xbf\xbd"
        "b");
}

TEST_CASE("a folder's template is chat_template.jinja, else that of tokenizer_config.json") {
  const Folder folder;
  CHECK_FALSE(ChatTemplate::find(folder.path).has_value());
  CHECK(
      error_of([&] { folder.render(); }) ==
      "chat_template_test: has no chat template: neither chat_template.jinja nor "
      "\"chat_template\" in tokenizer_config.json, nor \"tokenizer.chat_template\" of a GGUF file; "
      "take a model that was trained to chat, or add the file");
  folder.write("special_tokens_map.json", R"({"bos_token": "<a>", "pad_token": "<p>"})");
  folder.write("tokenizer_config.json",
               R"({"chat_template": "{{ bos_token }}{{ eos_token }}{{ pad_token }}",
                   "bos_token": {"content": "<b>"}, "eos_token": null})");
  CHECK(folder.render() == "<b><p>");
  folder.write("tokenizer_config.json", R"({"chat_template": [
      {"name": "tool_use", "template": "x"}, {"name": "default", "template": "y{{ bos_token }}"}]})");
  CHECK(folder.render() == "y<a>");
  folder.write("chat_template.jinja", "{{ messages[0].content }}\n");
  CHECK(folder.render() == "Hi");
  folder.write("chat_template.jinja", "\n{{ messages[0].content }");
  CHECK(error_of([&] { folder.render(); }) ==
        "chat_template_test/chat_template.jinja: line 2, column 24: '}' closes no bracket");
  std::filesystem::remove(folder.path + "/chat_template.jinja");
  folder.write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "x"}]})");
  CHECK(error_of([&] { folder.render(); }) ==
        "chat_template_test/tokenizer_config.json: chat_template: no template is named "
        "\"default\"; alpa uses this one");
}

TEST_CASE("a GGUF file has its template and tokens itself") {
  const TemporaryFile file("chat_template_test.gguf", "");
  const auto render = [&](const nlohmann::ordered_json& metadata) {
    write_gguf(file.path(), metadata, {});
    const std::optional<ChatTemplate> chat = ChatTemplate::find(file.path());
    return chat ? chat->render(std::vector<ChatMessage>{{"user", "Hi"}}).text : "none";
  };
  nlohmann::ordered_json metadata = {
      {"tokenizer.chat_template", "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"},
      {"tokenizer.ggml.tokens", {"a", "<s>", "</s>"}},
      {"tokenizer.ggml.bos_token_id", 1U},
      {"tokenizer.ggml.eos_token_id", 2U}};
  CHECK(render(metadata) == "<s>Hi</s>");
  metadata["tokenizer.ggml.eos_token_id"] = 3U;
  CHECK(error_of([&] { render(metadata); }) ==
        "chat_template_test.gguf: tokenizer.ggml.eos_token_id: found 3, expected a whole number "
        "from 0 to 2");
  metadata.erase("tokenizer.ggml.eos_token_id");
  CHECK(render(metadata) == "<s>Hi");
  metadata["tokenizer.chat_template"] = "{% if %}";
  CHECK(error_of([&] {
          render(metadata);
        }).starts_with("chat_template_test.gguf: tokenizer.chat_template: line 1, column "));
  metadata.erase("tokenizer.chat_template");
  CHECK(render(metadata) == "none");
}

TEST_CASE("mistakes name line, column and construct") {
  CHECK(mistake("a\n {{ x ") == "t: line 2, column 2: {{ has no }} behind it");
  CHECK(mistake("{# x") == "t: line 1, column 1: the comment has no end; write #} behind it");
  CHECK(mistake("{% include 'x' %}") ==
        "t: line 1, column 4: alpa has no tag 'include'; it has if, for, set, macro, break, "
        "continue, filter and generation");
  CHECK(mistake("{% if x %}") ==
        "t: line 1, column 11: the end of the template is where {% endif %} was expected");
  CHECK(mistake("{{ 1 | tojsn }}") == "t: line 1, column 8: alpa has no filter 'tojsn'");
  CHECK(mistake("{{ 1 is strng }}") == "t: line 1, column 9: alpa has no test 'strng'");
  CHECK(mistake("{{ f(*x) }}") == "t: line 1, column 6: '*' before an argument is what alpa lacks");
  CHECK(mistake("{{ messages.append(1) }}") ==
        "t: line 1, column 19: append, which is undefined, can't be called; alpa has no such "
        "function or method");
  CHECK(mistake("{{ a.b.c }}") == "t: line 1, column 5: a, which is undefined, has no members");
  CHECK(mistake("{{ 1 + 'a' }}") ==
        "t: line 1, column 6: a number + a text is nothing; write ~ between what shall be text");
  CHECK(mistake("{{ 'a'.split(x=1) }}") ==
        "t: line 1, column 13: split has no argument 'x'; it has: sep maxsplit");
  CHECK(mistake("{% break %}") == "t: line 1, column 4: break is in no loop");
  CHECK(mistake("{{ 'a\\ud800' }}") == "t: line 1, column 6: the escape stands for no character");
  CHECK(mistake("{{ '\\N{DASH}' }}") ==
        "t: line 1, column 5: the escape is one that alpa lacks; write the character");
  CHECK(mistake("{{ 'a' | map('upper', 1) | int }}{{ '1e30' | int }}") ==
        "t: line 1, column 10: upper takes 0 arguments, not 1");
  CHECK(mistake("{{ '1e30' | int }}") == "t: line 1, column 13: int: 1e+30 is beyond 64 bits");
  CHECK(mistake("{{ 9223372036854775807 + 1 }}") ==
        "t: line 1, column 24: 9223372036854775807 + 1 is beyond 64 bits");
  CHECK(mistake("{{ namespace() | tojson }}") == "t: line 1, column 18: a namespace has no JSON");
}

TEST_CASE("templates that would run, write or nest without end are refused") {
  const std::string too_much = "the template takes too many steps, or makes too much text";
  const std::string loops =
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
  CHECK(mistake(loops).ends_with(too_much));
  CHECK(mistake("{{ 'a' * 9999999999 }}").ends_with(too_much));
  CHECK(mistake("{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}"
                "{% endfor %}")
            .ends_with(too_much));
  CHECK(mistake("{% set n = namespace(x=[]) %}{% for i in range(99) %}{% set n.x = [n.x, n.x] %}"
                "{% endfor %}{{ n.x == n.x }}{{ n.x | string }}")
            .ends_with(too_much));
  CHECK(mistake("{% set n = namespace(x=[]) %}{% for i in range(999) %}{% set n.x = [n.x] %}"
                "{% endfor %}")
            .ends_with("lists and mappings are nested more than 100 deep"));
  CHECK(mistake("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}")
            .ends_with("the template calls itself too often"));
  CHECK(mistake("{{ range(999999) }}").ends_with("is beyond 100000 items"));
  const std::pair<const char*, const char*> pairs[] = {{"(", ")"},  {"[", "]"},   {"not ", ""},
                                                       {"-", ""},   {"f(", ")"},  {"1 if ", ""},
                                                       {"x[", "]"}, {"x|f(", ")"}};
  for (const auto& [open, close] : pairs) {
    std::string text = "{{ ", end;
    for (int i = 0; i < 10'000; ++i) text += open, end += close;
    CHECK_MESSAGE(mistake(text + "1" + end + " }}").ends_with(" deep"), open);
  }
  for (const char* open : {"{% if 1 %}", "{% set x %}"}) {
    std::string text;
    for (int i = 0; i < 10'000; ++i) text += open;
    CHECK_MESSAGE(mistake(text).ends_with(" deep"), open);
  }
  std::string sum = "{{ 1";
  for (int i = 0; i < 10'000; ++i) sum += "+1";
  CHECK(mistake(sum + " }}").ends_with("nested more than 200 deep"));
}

}  // namespace chat_template_test
