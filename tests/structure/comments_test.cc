// Comments and pages name their subjects: few open with a bare What, Of, Whether, Those or That.
#include <doctest/doctest.h>

#include <map>
#include <regex>
#include <string>

#include "structure/pages.h"

namespace comments_test {

using namespace alpa::testing;
using structure::SourceFile;

namespace {

constexpr double kMostWithoutSubject = 0.03;  ///< as a fraction of all blocks

/// Counts of blocks, and "file:line: text" of those that open without their subject.
struct Openings {
  int all = 0, bad = 0;
  std::string found;

  void add(const SourceFile& file, std::size_t line, const std::string& text) {
    static const std::regex subjectless(R"(^(What|Of|Whether|Those|That)\b[\s\S]*)");
    ++all;
    if (!std::regex_match(text, subjectless)) return;
    ++bad;
    found += file.path + ":" + std::to_string(line + 1) + ": " + text + "\n";
  }
  bool few() const { return bad <= kMostWithoutSubject * all; }
};

/// Comment blocks: lines of `//` without an empty one between them, or the end of a line of code.
void add_comments(const SourceFile& file, Openings& openings) {
  static const std::regex whole(R"(^\s*///?\s*(.*))"), trailing(R"(.*[;{},)]\s+///?<?\s*(.*))");
  bool inside = false;
  std::smatch match;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const bool alone = std::regex_match(file.lines[i], match, whole);
    if (!alone && !std::regex_match(file.lines[i], match, trailing)) {
      inside = false;
      continue;
    }
    if (!(alone && inside) && match[1].length() > 0) openings.add(file, i, match[1]);
    inside = match[1].length() > 0;
  }
}

/// Paragraphs and items of a page, outside of fenced code, tables and headings.
void add_paragraphs(const SourceFile& page, Openings& openings) {
  static const std::regex item(R"(^\s*(?:[-*]|\d+\.)\s+(.*))"), apart(R"(^\s*$|^\s*[|#].*)");
  bool code = false, inside = false;
  std::smatch match;
  for (std::size_t i = 0; i < page.lines.size(); ++i) {
    const std::string& line = page.lines[i];
    const bool fence = line.find("```") != std::string::npos;
    if (fence) code = !code;
    if (fence || code || std::regex_match(line, apart)) {
      inside = false;
      continue;
    }
    const bool begins = std::regex_match(line, match, item);
    if (begins || !inside) openings.add(page, i, begins ? match[1].str() : line);
    inside = true;
  }
}

}  // namespace

TEST_CASE("in each room at most 3 % of the headers' comments open without their subject") {
  std::map<std::string, Openings> rooms;
  for (const SourceFile& file : structure::source_files("src", {".h"})) {
    const std::string path = file.path.substr(4);
    const std::size_t end = path.find('/');
    add_comments(file, rooms[end == std::string::npos ? "" : path.substr(0, end)]);
  }
  CHECK(rooms.size() > 10);
  for (const auto& [room, openings] : rooms) {
    INFO(room << ": " << openings.bad << " of " << openings.all << "\n" << openings.found);
    CHECK(openings.few());
  }
}

TEST_CASE("at most 3 % of the paragraphs in docs open without their subject") {
  Openings openings;
  for (const SourceFile& page : structure::pages())
    if (page.path.starts_with("docs/")) add_paragraphs(page, openings);
  CHECK(openings.all > 500);
  INFO(openings.found);
  CHECK(openings.few());
}

TEST_CASE("openings of comment blocks and of paragraphs are counted") {
  Openings comments;
  add_comments({"x.h",
                {"/// What it is.", "/// That is more.", "int x;  ///< of y", "int y;  ///< That",
                 "// Of the same", "int z;", "  // Of it", "  //", "  // A whole"}},
               comments);
  CHECK(comments.all == 5);
  CHECK(comments.found == "x.h:1: What it is.\nx.h:4: That\nx.h:7: Of it\n");
  CHECK_FALSE(comments.few());
  Openings page;
  add_paragraphs({"x.md",
                  {"# What", "Those few", "Of it", "", "- That one", "- One", "```", "Of", "```",
                   "| What | Of |", "Whatever"}},
                 page);
  CHECK(page.all == 4);
  CHECK(page.found == "x.md:2: Those few\nx.md:5: That one\n");
}

}  // namespace comments_test
