// Reads pages in Markdown: their sentences and their code.
#include "structure/pages.h"

#include <cctype>
#include <regex>
#include <sstream>

namespace alpa::testing::structure {
namespace {

bool is_prose(const std::string& line) {
  return !line.empty() && !line.starts_with("|") && !line.starts_with("#") &&
         !line.starts_with("    ");
}

std::size_t words_of(const std::string& sentence) {
  std::istringstream stream(sentence);
  std::size_t words = 0;
  for (std::string word; stream >> word;)
    for (const char c : word)
      if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
        ++words;
        break;
      }
  return words;
}

/// Splits a paragraph that begins on `line`.
void split(const std::string& paragraph, std::size_t line, std::vector<Sentence>& sentences) {
  static const std::regex code("`[^`]*`"), link(R"(\[([^\]]*)\]\([^)]*\))");
  static const std::regex end(R"re([.!?][)"]*\s+(?=[A-Z"(\[]))re");
  const std::string text = std::regex_replace(std::regex_replace(paragraph, code, "X"), link, "$1");
  std::size_t begin = 0;
  const auto add = [&](std::size_t stop) {
    const std::string sentence = text.substr(begin, stop - begin);
    if (const std::size_t words = words_of(sentence); words > 0)
      sentences.push_back({sentence, line, words});
    begin = stop;
  };
  for (std::sregex_iterator match(text.begin(), text.end(), end), last; match != last; ++match)
    add(static_cast<std::size_t>(match->position() + match->length()));
  add(text.size());
}

}  // namespace

std::vector<SourceFile> pages() {
  std::vector<SourceFile> found;
  for (const SourceFile& file : committed_files())
    if (file.path == "README.md" || file.path == "CONTRIBUTING.md" ||
        (file.path.starts_with("docs/") && file.path.ends_with(".md")))
      found.push_back(file);
  return found;
}

std::vector<std::string> text_lines(const SourceFile& page) {
  std::vector<std::string> lines;
  bool fenced = false;
  for (const std::string& line : page.lines) {
    if (line.find("```") != std::string::npos) fenced = !fenced;
    if (!fenced) lines.push_back(line);
  }
  return lines;
}

std::vector<Sentence> sentences_of(const SourceFile& page) {
  static const std::regex item(R"(^\s*([-*]|\d+\.)\s+)");
  std::vector<Sentence> sentences;
  std::string paragraph;
  std::size_t first = 0;
  const auto flush = [&] {
    split(paragraph, first, sentences);
    paragraph.clear();
  };
  bool fenced = false;
  for (std::size_t i = 0; i < page.lines.size(); ++i) {
    const std::string& line = page.lines[i];
    const bool fence = line.find("```") != std::string::npos;
    if (fence) fenced = !fenced;
    if (fence || fenced || !is_prose(line) || std::regex_search(line, item)) flush();
    if (fence || fenced || !is_prose(line)) continue;
    if (paragraph.empty()) first = i + 1;
    paragraph += (paragraph.empty() ? "" : " ") +
                 (paragraph.empty() ? std::regex_replace(line, item, "") : line);
  }
  flush();
  return sentences;
}

std::vector<Code> code_of(const SourceFile& page) {
  static const std::regex quoted("`([^`]+)`");
  std::vector<Code> found;
  bool fenced = false;
  for (std::size_t i = 0; i < page.lines.size(); ++i) {
    const std::string& line = page.lines[i];
    if (line.find("```") != std::string::npos) {
      fenced = !fenced;
    } else if (fenced || line.starts_with("    ")) {
      found.push_back({line, i + 1, true});
    } else {
      for (std::sregex_iterator match(line.begin(), line.end(), quoted), last; match != last;
           ++match)
        found.push_back({(*match)[1], i + 1, false});
    }
  }
  return found;
}

}  // namespace alpa::testing::structure
