// Commands and flags that README.md and the guide name exist.
#include <doctest/doctest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "support/program.h"

namespace pages_test {

using namespace alpa::testing;

namespace {

using Words = std::set<std::string>;

std::string text_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// What the first group of the pattern matches.
Words words_in(const std::string& text, const std::regex& pattern) {
  Words words;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match)
    words.insert((*match)[1]);
  return words;
}

Words flags_in(const std::string& text) {
  static const std::regex flag("(?:^|[^-\\w])(--[a-z][a-z0-9-]*)");
  return words_in(text, flag);
}

std::string help_of(const std::string& command) {
  return run_shell(ALPA_PROGRAMS "/" + command + " --help").text;
}

Words commands_of_alpa() { return words_in(help_of("alpa"), std::regex("\n  alpa ([a-z]+)")); }

/// Words of the first set that the second lacks, as text.
std::string missing(const Words& words, const Words& known) {
  std::string text;
  for (const std::string& word : words)
    if (known.count(word) == 0) text += word + " ";
  return text;
}

const std::string kPages[] = {"README.md", "docs/guide.md", "docs/design.md"};

}  // namespace

TEST_CASE("the flags that the pages name are flags of the programs") {
  Words known{"--build", "--install", "--preset"};  // of cmake
  for (const char* command : {"alpa-mlp", "alpa-gpt", "alpa-moe", "alpa-bert", "alpa-vit",
                              "alpa-wide-resnet", "alpa explain", "alpa profile", "alpa doctor"})
    known.merge(flags_in(help_of(command)));
  for (const std::string& page : kPages) {
    const Words named = flags_in(text_of(ALPA_SOURCE_DIR "/" + page));
    CAPTURE(page);
    CHECK(named.size() >= 3);
    CHECK(missing(named, known) == "");
  }
  CHECK(missing(flags_in("`--fast` and --batch"), known) == "--fast ");
}

TEST_CASE("the subcommands of alpa that the pages name exist, and docs/design.md lists all") {
  const Words commands = commands_of_alpa();
  CHECK(commands.size() >= 4);
  for (const std::string& page : kPages) {
    CAPTURE(page);
    CHECK(missing(words_in(text_of(ALPA_SOURCE_DIR "/" + page), std::regex("`alpa ([a-z]+)")),
                  commands) == "");
  }
  const std::string design = text_of(ALPA_SOURCE_DIR "/docs/design.md");
  const std::size_t begin = design.find("one program `alpa` with subcommands (");
  REQUIRE(begin != design.npos);
  const std::string list = design.substr(begin, design.find(')', begin) - begin);
  Words listed = words_in(list, std::regex("`([a-z]+)`"));
  listed.erase("alpa");
  CHECK(listed == commands);
}

}  // namespace pages_test
