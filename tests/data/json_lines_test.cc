// Files of JSON lines as examples: what of them is learnt, and what is told of mistakes.
#include <doctest/doctest.h>

#include "alpa/data/text.h"
#include "support/error_text.h"
#include "support/temporary_file.h"

namespace json_lines_test {

using namespace alpa;
using testing::error_of;
using testing::TemporaryFile;

namespace {

/// The examples of these lines, a token per byte.
std::vector<TextExample> read(const std::string& lines, const JsonLinesOptions& options = {}) {
  const TemporaryFile file("json_lines_test.jsonl", lines);
  return read_json_lines(file.path(), Tokenizer::of_bytes(), options);
}

/// The text, with what is learnt between brackets.
std::string shown(const TextExample& example) {
  std::string text;
  bool open = false;
  for (std::size_t i = 0; i <= example.tokens.size(); ++i) {
    const bool learnt = i < example.tokens.size() && example.learnt[i];
    if (learnt != open) text += learnt ? "[" : "]";
    open = learnt;
    if (i < example.tokens.size()) text += static_cast<char>(example.tokens[i]);
  }
  return text;
}

std::string mistake(const std::string& lines) {
  const std::string text = error_of([&] { read(lines); });
  return text.substr(text.find("json_lines_test.jsonl"));
}

}  // namespace

TEST_CASE("texts are learnt whole, of prompts and completions the completions, each with its end") {
  const auto examples = read(
      "{\"text\": \"all\", \"id\": 7}\r\n\n"
      "{\"completion\": \" four\", \"prompt\": \"2+2 is\"}",
      {.end = '.'});
  REQUIRE(examples.size() == 2);
  CHECK(shown(examples[0]) == "[all.]");
  CHECK(shown(examples[1]) == "2+2 is[ four.]");
  CHECK(shown(read("{\"text\": \"all\"}")[0]) == "[all]");
}

TEST_CASE("of conversations the replies are learnt, with the words that end them") {
  const auto chat = [](const std::string& text) {
    return JsonLinesOptions{.end = '.', .chat = ChatTemplate::parse(text, "chat")};
  };
  const std::string talk =
      "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, "
      "{\"role\": \"assistant\", \"content\": \"b\"}, {\"role\": \"user\", \"content\": \"c\"}, "
      "{\"role\": \"assistant\", \"content\": [{\"type\": \"text\", \"text\": \"d\"}]}]}";
  const std::string plain =
      "^{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}"
      "{% if add_generation_prompt %}a:{% endif %}";
  const auto whole = read(talk, chat(plain));
  REQUIRE(whole.size() == 1);
  CHECK(shown(whole[0]) == "^u:a;a:[b;]u:c;a:[d;]");
  // The last reply alone has its thoughts, so each is an example.
  const std::string thoughtful =
      "{% for m in messages %}{{ m.role[0] }}:{% if m.role == 'assistant' and loop.last %}(hm)"
      "{% endif %}{{ m.content }};{% endfor %}{% if add_generation_prompt %}a:{% endif %}";
  const auto parts = read(talk, chat(thoughtful));
  REQUIRE(parts.size() == 2);
  CHECK(shown(parts[0]) == "u:a;a:[(hm)b;]");
  CHECK(shown(parts[1]) == "u:a;a:b;u:c;a:[(hm)d;]");
  const auto refused = [&](const std::string& text, const std::string& line) {
    return error_of([&] { read(line, chat(text)); });
  };
  const std::string place = "json_lines_test.jsonl: line 1: messages";
  CHECK(refused("{{ messages | length }}", talk)
            .find(place + ": the chat template writes the "
                          "messages before [1] in another") == 0);
  CHECK(refused(plain, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}") ==
        place + ": no message is of role \"assistant\", so there is nothing to learn");
  CHECK(refused("{{ raise_exception('no') }}", talk) ==
        place + ": chat: line 1, column 19: the template refuses the messages: no");
  CHECK(refused(plain,
                "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": "
                "\"image\"}]}]}") ==
        place +
            "[0].content[0].type: found \"image\", expected \"text\", which alone can be "
            "learnt");
}

TEST_CASE("mistakes name file, line and place") {
  const std::string file = "json_lines_test.jsonl: ";
  CHECK(mistake("\n \n") == file + "has no lines; write a JSON object on each");
  CHECK(mistake("{\"text\": \"a\"}\n{\"body\": \"b\"}") ==
        file +
            "line 2: expected an object with \"messages\", \"text\", or \"prompt\" and "
            "\"completion\"");
  CHECK(mistake("[]").find("line 1: expected an object with") == file.size());
  CHECK(mistake("{\"text\": 3}") == file + "line 1: text: found 3, expected a text");
  CHECK(mistake("{\"prompt\": \"a\", \"completion\": null}") ==
        file + "line 1: completion: found null, expected a text");
  CHECK(mistake("{\"text\": \"a\"}\n{\"text\": ").find("line 2: ") == file.size());
  CHECK(mistake("{\"messages\": []}") ==
        file +
            "line 1: messages: there is no chat template; the tokenizer's folder has it as "
            "chat_template.jinja or in tokenizer_config.json, and a GGUF file as "
            "tokenizer.chat_template");
}

}  // namespace json_lines_test
