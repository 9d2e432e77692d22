// Rules for pages, test names and the namespaces of test helpers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <regex>

#include "structure/source_files.h"

namespace text_rules_test {

using namespace alpa::testing;
using structure::SourceFile;

namespace {

constexpr std::size_t kMaxColumns = 100;

/// Characters of UTF-8 text.
std::size_t columns(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

/// "file:line " of every line of prose that is too long. Tables, code and headings may be longer.
std::string long_lines(const SourceFile& page) {
  std::string found;
  bool code = false;
  for (std::size_t i = 0; i < page.lines.size(); ++i) {
    const std::string& line = page.lines[i];
    if (line.starts_with("```")) code = !code;
    if (code || line.starts_with("|") || line.starts_with("#") || line.starts_with("    "))
      continue;
    if (columns(line) > kMaxColumns) found += page.path + ":" + std::to_string(i + 1) + " ";
  }
  return found;
}

/// "file:line " of every line that is too long. Raw literals may be longer, and in comments rows of
/// tables and commands, which begin with two spaces.
std::string long_code(const SourceFile& file) {
  static const std::regex table(R"(^\s*///?  .*)");
  std::string found;
  bool raw = false;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const std::string& line = file.lines[i];
    raw |= line.find("R\"") != std::string::npos;
    if (!raw && columns(line) > kMaxColumns && !std::regex_match(line, table))
      found += file.path + ":" + std::to_string(i + 1) + " ";
    raw &= line.find(")\"") == std::string::npos && line.find(")re\"") == std::string::npos;
  }
  return found;
}

/// True for words that begin with a capital letter in the middle of a sentence, too.
bool is_proper(const std::string& word) {
  static const std::vector<std::string> kNames = {"Adam",  "Adam's",     "Alpa's",
                                                  "Eigen", "Prototype,", "ZeRO's"};
  const bool acronym = std::any_of(word.begin() + 1, word.end(), [](unsigned char c) {
    return std::isupper(c) != 0 || std::isdigit(c) != 0;
  });
  return acronym || std::find(kNames.begin(), kNames.end(), word) != kNames.end();
}

/// What is wrong with the name of a test case; "" if nothing is.
std::string name_complaint(const std::string& name) {
  const bool capital = std::isupper(static_cast<unsigned char>(name[0])) != 0;
  if (capital && !is_proper(name.substr(0, name.find(' ')))) return "begins with a capital letter";
  return name.ends_with(".") ? "ends with a full stop" : "";
}

std::string text_of(const SourceFile& file) {
  std::string text;
  for (const std::string& line : file.lines) text += line + "\n";
  return text;
}

/// Every test case of the file whose name breaks the style.
std::string name_complaints(const SourceFile& file) {
  static const std::regex pattern(R"re(\nTEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+))re");
  static const std::regex joint(R"re("\s*")re");
  const std::string text = text_of(file);
  std::string found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    std::string name = std::regex_replace((*match)[1].str(), joint, "");
    name = name.substr(1, name.rfind('"') - 1);
    const std::string complaint = name_complaint(name);
    if (!complaint.empty()) found += file.path + ": \"" + name + "\" " + complaint + "\n";
  }
  return found;
}

}  // namespace

TEST_CASE("prose in README.md and docs is wrapped at 100 columns") {
  std::string found;
  int pages = 0;
  for (const SourceFile& file : structure::committed_files())
    if (file.path == "README.md" ||
        (file.path.starts_with("docs/") && file.path.ends_with(".md"))) {
      found += long_lines(file);
      ++pages;
    }
  CHECK(pages > 5);
  CHECK(found == "");
  CHECK(long_lines({"x.md", {std::string(100, 'x'), "| " + std::string(100, 'x')}}) == "");
  CHECK(long_lines({"x.md", {"```", std::string(101, 'x'), "```", std::string(101, 'x')}}) ==
        "x.md:4 ");
}

TEST_CASE("code and comments are wrapped at 100 columns") {
  std::string found;
  for (const char* folder :
       {"include", "src", "kernels", "models", "tools", "bindings", "tests", "bench"})
    for (const SourceFile& file : structure::source_files(folder, {".h", ".cc", ".cu"}))
      found += long_code(file);
  CHECK(found == "");
  CHECK(long_code({"x.h", {"  /// " + std::string(95, 'x'), "//   " + std::string(99, 'x')}}) ==
        "x.h:1 ");
  CHECK(long_code({"x.h",
                   {"R\"(" + std::string(98, 'x'), std::string(101, 'x'), ")\";",
                    std::string(101, 'x')}}) == "x.h:4 ");
}

TEST_CASE("the name of a test case is a claim, in lower case and without a full stop") {
  std::string found;
  for (const SourceFile& file : structure::source_files("tests", {"_test.cc"}))
    found += name_complaints(file);
  CHECK(found == "");
  CHECK(name_complaints({"x", {"", "TEST_CASE(\"A claim\") {}"}}) ==
        "x: \"A claim\" begins with a capital letter\n");
  CHECK(name_complaints({"x", {"", "TEST_CASE(\"a claim\"", "  \" made.\") {}"}}) ==
        "x: \"a claim made.\" ends with a full stop\n");
  CHECK(name_complaints({"x", {"", "TEST_CASE(\"GPipe and Adam\") {}"}}) == "");
}

TEST_CASE("test helpers are in a namespace called testing") {
  // The emulated CUDA and the fuzzers are programs of their own, with namespaces of their own.
  const std::regex opened(R"(^namespace (\w[\w:]*) \{)");
  std::string found;
  for (const SourceFile& file : structure::source_files("tests", {".h"})) {
    if (file.path.starts_with("tests/emulation/") || file.path.starts_with("tests/fuzz/")) continue;
    std::smatch match;
    for (const std::string& line : file.lines)
      if (std::regex_search(line, match, opened) &&
          match[1].str().find("testing") == std::string::npos)
        found += file.path + ": " + match[1].str() + "\n";
  }
  CHECK(found == "");
}

}  // namespace text_rules_test
