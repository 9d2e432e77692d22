// What the pages say of the repository is there: files, presets, programs, subcommands, flags and
// names of the code. And how they say it: length of sentences, size of README.md.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>

#include "structure/pages.h"

namespace pages_test {

using namespace alpa::testing;
using structure::Code;
using structure::SourceFile;

namespace {

constexpr std::size_t kMostWords = 25;
constexpr double kMostLongSentences = 0.04;  ///< as a fraction of all
constexpr std::size_t kReadmeBytes = 6 * 1024;

/// What the pages may name.
struct Names {
  std::set<std::string> paths;  ///< files and folders
  std::set<std::string> words;  ///< identifiers and flags of sources, scripts and build files
  std::set<std::string> presets, subcommands;
};

/// All matches of group 1 of `pattern` in `text`.
std::vector<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), last; match != last; ++match)
    found.push_back((*match)[1]);
  return found;
}

void add_path(std::string path, std::set<std::string>& paths) {
  for (; !path.empty();
       path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/')))
    paths.insert(path);
}

Names names_of(const std::vector<SourceFile>& files) {
  static const std::regex word(R"((--[a-z][a-z0-9-]*|[A-Za-z_]\w*))");
  static const std::regex preset(R"re("name": "(\w+)")re"), command(R"re(\{"([\w-]+)", )re");
  Names names;
  for (const SourceFile& file : files) {
    add_path(file.path, names.paths);
    if (file.path.ends_with(".md") || file.path.ends_with(".jsonl")) continue;
    for (const std::string& line : file.lines) {
      for (const std::string& found : matches(line, word)) names.words.insert(found);
      if (file.path == "CMakePresets.json")
        for (const std::string& found : matches(line, preset)) names.presets.insert(found);
      if (file.path == "tools/main.cc")
        for (const std::string& found : matches(line, command)) names.subcommands.insert(found);
    }
  }
  return names;
}

bool is_path(const std::string& path, const Names& names) {
  return names.paths.contains(path) ||
         std::any_of(names.paths.begin(), names.paths.end(),
                     [&](const std::string& known) { return known.ends_with("/" + path); });
}

/// What of `code` does not exist, each followed by a blank.
std::string missing(const Code& code, const Names& names) {
  static const std::regex folder(
      R"(\b((?:include|src|kernels|models|tools|tests|bench|scripts|cmake|clusters|docs)/[\w./-]*\w))");
  static const std::regex file(R"((?:^|[\s`(])([\w./-]*\w\.(?:h|cc|cu|cuh|cmake))(?![\w<]))");
  static const std::regex preset(R"((?:--preset |build/)(\w+)\b)");
  static const std::regex subcommand(R"((?:^|\s|/)alpa ([a-z]+(?:-[a-z]+)*)\b)");
  static const std::regex program(R"((?:^|\s|bin/)alpa-([a-z-]+)\b)");
  static const std::regex flag(R"((?:^|\s)(--[a-z][a-z0-9-]*))");
  static const std::regex name(R"((?:^|[^\w./<-])([A-Za-z]\w*_\w+|[a-z]\w*(?=\()|\w+(?=::)))");
  static const std::regex field(R"(\.([a-z]\w*)(?= = |[,}]))");
  std::string found;
  const auto check = [&](const std::regex& pattern, const char* what, auto known) {
    for (const std::string& match : matches(code.text, pattern))
      if (!known(match)) found += what + (" " + match) + " ";
  };
  const bool pattern = code.text.find_first_of("<*") != std::string::npos ||
                       code.text.find("…") != std::string::npos;
  const auto path = [&](const std::string& x) { return is_path(x, names); };
  if (!pattern) check(folder, "path", path);
  // In a block, a name without a folder is a file of the reader's.
  if (!pattern)
    check(file, "path", [&](const std::string& x) {
      return path(x) || (code.block && x.find('/') == std::string::npos);
    });
  check(preset, "preset", [&](const auto& x) { return names.presets.contains(x) || x == "api"; });
  check(subcommand, "subcommand", [&](const auto& x) { return names.subcommands.contains(x); });
  check(program, "program", [&](std::string x) {
    std::replace(x.begin(), x.end(), '-', '_');
    return is_path("models/" + x + ".cc", names);
  });
  check(flag, "flag", [&](const auto& x) { return names.words.contains(x); });
  if (!code.block) check(field, "field", [&](const auto& x) { return names.words.contains(x); });
  if (!code.block && !pattern)
    check(name, "name", [&](const auto& x) { return names.words.contains(x); });
  return found;
}

}  // namespace

TEST_CASE("files, presets, programs, subcommands, flags and names on the pages exist") {
  const Names names = names_of(structure::committed_files());
  CHECK(names.presets.size() > 3);
  CHECK(names.subcommands.size() > 3);
  // What the pages docs/adding-… add is not there; structure/added_code.sh applies and compiles it.
  for (const SourceFile& page : structure::pages())
    for (const Code& code : structure::code_of(page)) {
      const std::string& line = page.lines[code.line - 1];
      if (page.path.starts_with("docs/adding-a") && (code.block || line.ends_with(", new")))
        continue;
      CHECK_MESSAGE(missing(code, names) == "",
                    page.path << ":" << code.line << ": " << missing(code, names));
    }
}

TEST_CASE("every option that a page names in backquotes is set by a program on a page") {
  static const std::regex named(R"(\.([a-z]\w*)(?= = |[,}]))"), set(R"(\.([a-z]\w*) = )");
  std::set<std::string> compiled;
  for (const SourceFile& page : structure::pages())
    for (const Code& code : structure::code_of(page))
      if (code.block)
        for (const std::string& option : matches(code.text, set)) compiled.insert(option);
  for (const SourceFile& page : structure::pages())
    for (const Code& code : structure::code_of(page))
      if (!code.block)
        for (const std::string& option : matches(code.text, named))
          CHECK_MESSAGE(compiled.contains(option), page.path << ": " << option);
}

TEST_CASE("every block of code is fenced and says what it is") {
  // alpa_add_page of cmake/AlpaRepositoryTests.cmake tries all but text. The entry bindings/page
  // tries those of Python, on one page.
  static const std::set<std::string> kinds = {"```cpp", "```sh", "```json", "```text"};
  const auto strange = [&](const SourceFile& page) {
    std::string found;
    bool fenced = false;
    for (std::size_t i = 0; i < page.lines.size(); ++i) {
      const std::string& line = page.lines[i];
      const bool fence = line.find("```") != std::string::npos;
      const bool python = line == "```python" && page.path == "docs/python.md";
      if ((fence && !fenced && !python && !kinds.contains(line)) ||
          (!fenced && line.starts_with("    ")))
        found += page.path + ":" + std::to_string(i + 1) + " ";
      if (fence) fenced = !fenced;
    }
    return found;
  };
  for (const SourceFile& page : structure::pages()) CHECK(strange(page) == "");
  CHECK(strange({"x", {"```", "a", "```", "", "    b", "```sh", "    c", "```"}}) == "x:1 x:5 ");
}

TEST_CASE("links between pages lead to files") {
  static const std::regex link(R"(\]\(([^)#:]+)[^):]*\))"), quoted("`[^`]*`");
  const Names names = names_of(structure::committed_files());
  for (const SourceFile& page : structure::pages())
    for (const std::string& line : structure::text_lines(page))
      for (std::string target : matches(std::regex_replace(line, quoted, ""), link)) {
        const bool up = target.starts_with("../");
        if (up) target = target.substr(3);
        if (!up && page.path.starts_with("docs/")) target = "docs/" + target;
        const bool is_picture =
            target.ends_with(".png") &&
            std::filesystem::is_regular_file(std::filesystem::path(ALPA_SOURCE_DIR) / target);
        CHECK_MESSAGE((is_picture || names.paths.contains(target)),
                      page.path << " links to " << target);
      }
}

TEST_CASE("what is not there is named with its kind") {
  const Names names = names_of({{"src/a/b.cc", {"int f_g(int x) { return h(x); }", "--devices"}},
                                {"models/mlp.cc", {}},
                                {"CMakePresets.json", {"\"name\": \"release\""}},
                                {"tools/main.cc", {"{\"solve\", run}"}}});
  const auto told = [&](const char* text) { return missing({text, 1, false}, names); };
  CHECK(told("src/a/b.cc") == "");
  CHECK(told("a/b.cc") == "");
  CHECK(told("src/a") == "");
  CHECK(told("src/b.cc") == "path src/b.cc path src/b.cc ");
  CHECK(told("build/release/bin/alpa-mlp --devices 8") == "");
  CHECK(told("build/dev/bin/alpa-mpl") == "preset dev program mpl ");
  CHECK(told("alpa solve x") == "");
  CHECK(told("alpa bench --fast") == "subcommand bench flag --fast ");
  CHECK(told("h(x), f_g") == "");
  CHECK(told("k(x), f_h, Box::g") == "name k name f_h name Box ");
}

TEST_CASE("at most 4 % of the pages' sentences have more than 25 words") {
  std::size_t all = 0, longer = 0;
  std::string by_page;
  for (const SourceFile& page : structure::pages()) {
    const auto sentences = structure::sentences_of(page);
    const auto count = static_cast<std::size_t>(
        std::count_if(sentences.begin(), sentences.end(),
                      [](const auto& sentence) { return sentence.words > kMostWords; }));
    by_page +=
        page.path + " " + std::to_string(count) + " of " + std::to_string(sentences.size()) + "\n";
    all += sentences.size(), longer += count;
  }
  CAPTURE(by_page);
  CHECK(all > 500);
  CHECK(static_cast<double>(longer) <= kMostLongSentences * static_cast<double>(all));
}

TEST_CASE("sentences are counted across lines, with code as one word and without tables") {
  const auto sentences = structure::sentences_of(
      {"x.md",
       {"# A heading", "One two `three four`", "five. Six [seven](x.md)", "", "| a. B. |",
        "- Eight nine.", "  Ten: eleven", "```", "Twelve.", "```"}});
  REQUIRE(sentences.size() == 4);
  CHECK(sentences[0].words == 4);
  CHECK(sentences[1].words == 2);
  CHECK(sentences[2].words == 2);
  CHECK(sentences[3].words == 2);
  CHECK(sentences[3].line == 6);
}

TEST_CASE("README.md has at most 6 KiB") {
  for (const SourceFile& page : structure::pages()) {
    if (page.path != "README.md") continue;
    std::size_t bytes = 0;
    for (const std::string& line : page.lines) bytes += line.size() + 1;
    CHECK(bytes <= kReadmeBytes);
  }
}

}  // namespace pages_test
