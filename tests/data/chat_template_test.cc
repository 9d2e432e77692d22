// Chat templates: the texts that jinja2 writes, with the settings of transformers, and mistakes.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "alpa/data/text.h"
#include "support/error_text.h"
#include "support/temporary_file.h"
#include "support/temporary_folder.h"

namespace chat_template_test {

using namespace alpa;
using testing::error_of;

namespace {

const std::vector<ChatMessage> kTalk = {{"system", "Be \"brief\" & kind."},
                                        {"user", "  What's 2+2?\n"},
                                        {"assistant", "4"},
                                        {"user", "Übel?"}};

/// What the template writes of a conversation.
std::string render(const std::string& text, bool prompt = false,
                   const std::vector<ChatMessage>& messages = kTalk) {
  return ChatTemplate::parse(text, "t", {{"bos_token", "<s>"}, {"eos_token", "</s>"}})
      .render(messages, prompt);
}

/// The value of an expression.
std::string value(const std::string& expression) { return render("{{ " + expression + " }}"); }

std::string mistake(const std::string& text) {
  return error_of([&] { render(text); });
}

}  // namespace

// The templates have the shapes of published ones; the expected texts are those of jinja2 3.1.
TEST_CASE("conversations are written as jinja2 writes them") {
  const std::string chat_ml =
      "{% for message in messages %}\n"
      "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}\n"
      "{% endfor %}\n"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}\n";
  CHECK(render(chat_ml, true) ==
        "<|im_start|>system\nBe \"brief\" & kind.<|im_end|>\n\n"
        "<|im_start|>user\n  What's 2+2?\n<|im_end|>\n\n"
        "<|im_start|>assistant\n4<|im_end|>\n\n"
        "<|im_start|>user\nÜbel?<|im_end|>\n\n"
        "<|im_start|>assistant\n");
  const std::string llama =
      "{%- if messages[0]['role'] == 'system' %}\n"
      "    {%- set system_message = messages[0].content | trim %}\n"
      "    {%- set messages = messages[1:] %}\n"
      "{%- else %}{% set system_message = '' %}{% endif -%}\n"
      "{{- bos_token }}[{{ system_message }}]\n"
      "{%- for m in messages if m.role is not none %}\n"
      "    {%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}\n"
      "        {{- raise_exception('roles must alternate') }}\n"
      "    {%- endif %}\n"
      "    {{- '<' ~ loop.index ~ ':' ~ m['role'] ~ '>' + m.content.strip() + eos_token }}\n"
      "{%- endfor %}";
  CHECK(render(llama) ==
        "<s>[Be \"brief\" & kind.]<1:user>What's 2+2?</s><2:assistant>4</s><3:user>Übel?</s>");
  CHECK(error_of([&] {
          render(llama, false, {{"user", "a"}, {"user", "b"}});
        }) == "t: line 8: it refuses: roles must alternate");
  const std::string with_macro =
      "{% macro turn(role, text, end='#') %}<{{ role|upper }}>{{ text }}{{ end }}{% endmacro %}\n"
      "{% set ns = namespace(seen=0) %}\n"
      "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}\n"
      "{% set ns.seen = ns.seen + 1 %}{{ turn(m.role, m.content|trim) }}\n"
      "{% if ns.seen == 2 %}{% break %}{% endif %}{% endfor %}{{ ns.seen }}";
  CHECK(render(with_macro) == "<USER>What's 2+2?#\n<ASSISTANT>4#\n2");
}

TEST_CASE("expressions have Python's values and texts") {
  const std::pair<const char*, const char*> expected[] = {
      {"[1 + 2 * 3 ** 2 - 7 // 2, -7 // 2, -7 % 3, 7 / 2, 1.0]", "[16, -4, 2, 3.5, 1.0]"},
      {"[1, 2.5, 'it\\'s', none, true, {'a': 'b'}]", "[1, 2.5, \"it's\", None, True, {'a': 'b'}]"},
      {"'abcdef'[1:-1:2] ~ 'abc'[::-1] ~ 'übel'[0]", "bdcbaü"},
      {"'a' in 'cat' and 3 not in [1, 2] and not (1 > 2)", "True"},
      {"'yes' if messages | length == 4 else 'no'", "yes"},
      {"messages | map(attribute='role') | unique | join('+')", "system+user+assistant"},
      {"messages | selectattr('role', 'equalto', 'user') | list | length", "2"},
      {"(messages | first).role ~ (messages | last)['role']", "systemuser"},
      {"{'b': [1, {}], 'a': 'ü'} | tojson", "{\"b\": [1, {}], \"a\": \"ü\"}"},
      {"{'a': [1]} | tojson(indent=2)", "{\n  \"a\": [\n    1\n  ]\n}"},
      {"none_such is defined or none_such | default('d')", "d"},
      {"'' | default('d', true) ~ ('x' is string and 1 is number)", "dTrue"},
      {"'a,b,c'.split(',')[-1] ~ 'A b'.title() ~ ' x '.strip() ~ 'aXa'.replace('a', '', 1)",
       "cA BxXa"},
      {"{'k': 1}.get('n', 2) ~ {'k': 1}.items() | map('join', '=') | join", "2k=1"},
      {"range(3) | list ~ range(5, 1, -2) | list", "[0, 1, 2][5, 3]"},
  };
  for (const auto& [expression, text] : expected) {
    CAPTURE(std::string(expression));
    CHECK(value(expression) == text);
  }
}

TEST_CASE("space around tags goes as transformers asks for") {
  CHECK(render("a\n  {% if true %}\nb\n  {% endif %}\nc") == "a\nb\nc");
  CHECK(render("a\n  {{ 1 }}\nb") == "a\n  1\nb");
  CHECK(render("a  {%- if true -%}  b  {%- endif %}  c") == "ab  c");
  CHECK(render("a {# gone #}\nb {#- gone -#} c") == "a bc");
  CHECK(render("x{%+ if true %}\n y{% endif %}\n\n") == "x y");
}

TEST_CASE("a folder's template is in a file of its own, or in its configuration") {
  const testing::TemporaryFolder folder("chat_template_test");
  std::filesystem::create_directories(folder.path());
  const std::string config = folder.path() + "/tokenizer_config.json",
                    own = folder.path() + "/chat_template.jinja";
  CHECK_FALSE(ChatTemplate::find(folder.path()));
  std::ofstream(config) << "{\"bos_token\": {\"content\": \"<b>\"}, \"add_bos_token\": true, "
                           "\"pad_token\": null, \"chat_template\": [{\"name\": \"default\", "
                           "\"template\": \"{{ bos_token }}{{ messages[0].content }}\"}]}";
  CHECK(ChatTemplate::find(folder.path())->render(std::vector<ChatMessage>{{"user", "hi"}}) ==
        "<b>hi");
  std::ofstream(own) << "own {{ bos_token }}";
  CHECK(ChatTemplate::find(folder.path())->render(kTalk) == "own <b>");
  std::ofstream(own) << "{% include 'x' %}";
  CHECK(error_of([&] { ChatTemplate::find(folder.path()); }) ==
        own +
            ": line 1: \"include\" is not supported; chat templates have for, if, set, macro, "
            "break, continue and generation");
}

TEST_CASE("mistakes name line and what is supported") {
  CHECK(mistake("a\n{{ 1 + }}") == "t: line 2: found \"{\", expected a value");
  CHECK(mistake("{% for x in %}") == "t: line 1: found \"%\", expected a value");
  CHECK(mistake("{% if true %}") == "t: line 1: no \"endif\"");
  CHECK(mistake("{% endif %}") ==
        "t: line 1: \"endif\" is not supported; chat templates have for, if, set, macro, break, "
        "continue and generation");
  CHECK(mistake("{{ 'a") == "t: line 1: a text without its closing quote");
  CHECK(mistake("{{ 1 / 0 }}") == "t: line 1: division by zero");
  CHECK(mistake("\n{{ 'a' + 1 }}") == "t: line 2: \"+\" of a text and a number");
  CHECK(mistake("{{ nobody.name }}") == "t: line 1: \"name\" of something undefined");
  CHECK(mistake("{{ nobody() }}").find("t: line 1: \"nobody\" is no function; there are") == 0);
  CHECK(mistake("{{ 'a' | wordwrap }}")
            .find("t: line 1: filter \"wordwrap\" is not supported; there are abs, ") == 0);
  CHECK(mistake("{{ 9223372036854775807 }}") == "t: line 1: a number of more than 18 digits");
}

TEST_CASE("templates that would never end, or write without end, are stopped") {
  CHECK(mistake("{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}")
            .find("runs for too long") != std::string::npos);
  CHECK(mistake("{% set a = 'x' * 99999 %}{% for i in range(9999) %}{{ a }}{% endfor %}")
            .find("writes more than 64 MiB") != std::string::npos);
  CHECK(mistake("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}").find("50 deep") !=
        std::string::npos);
  CHECK(mistake("{{ range(99999999) }}") == "t: line 1: range: more than 1000000 numbers");
  std::string deep, tall = "1", long_one = "a";
  for (int i = 0; i < 5000; ++i) deep += "(", tall += " + 1", long_one += ".a";
  CHECK(mistake("{{ " + deep + " }}") == "t: line 1: nested too deep");
  CHECK(mistake("{{ " + tall + " }}") == "t: line 1: an expression of too many parts");
  CHECK(mistake("{{ " + long_one + " }}") == "t: line 1: an expression of too many parts");
}

}  // namespace chat_template_test
