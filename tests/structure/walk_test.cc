// docs/walk.md names files and functions that exist, and that somebody calls.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <regex>

#include "structure/source_files.h"

namespace walk_test {

using namespace alpa::testing;
using structure::SourceFile;

namespace {

using Texts = std::map<std::string, std::string>;

/// The words in backquotes of a cell.
std::vector<std::string> code_of(const std::string& cell) {
  static const std::regex pattern("`([^`]+)`");
  std::vector<std::string> result;
  for (std::sregex_iterator match(cell.begin(), cell.end(), pattern), end; match != end; ++match)
    result.push_back((*match)[1]);
  return result;
}

bool has_word(const std::string& text, const std::string& word, const std::string& after) {
  return std::regex_search(text, std::regex("\\b" + word + "\\b" + after));
}

/// True if `text` calls, declares or defines `function`, which may be "Class::member".
bool has_function(const std::string& text, const std::string& function) {
  const std::size_t scope = function.rfind("::");
  if (scope == std::string::npos) return has_word(text, function, "(<[^;(]*>)?\\(");
  return has_word(text, function.substr(0, scope), "") &&
         has_word(text, function.substr(scope + 2), "(<[^;(]*>)?\\(");
}

/// True if one of `files` calls `function`, or passes it on. A declaration is no call: a type comes
/// before its name.
bool has_caller(const Texts& files, const std::string& function) {
  const std::string name = function.substr(function.rfind(':') + 1);
  const std::regex called("(^|\n|[-(=,!.{}?:;+|&*]|->|\\b(return|else)\\b)\\s*(\\w+::)*" + name +
                          "(<[^;(]*>)?\\(");
  const std::regex passed("[(,=:{&]\\s*&?(\\w+::)*" + name + "\\s*[,)}]");
  return std::any_of(files.begin(), files.end(), [&](const auto& file) {
    return file.second.find(name) != std::string::npos &&
           (std::regex_search(file.second, called) || std::regex_search(file.second, passed));
  });
}

/// What is wrong with a row `| what happens | file | functions |`; "" if nothing is.
std::string complaint(const std::string& row, const Texts& files, const Texts& callers) {
  std::vector<std::string> cells;
  for (std::size_t at = 1, end; (end = row.find('|', at)) != std::string::npos; at = end + 1)
    cells.push_back(row.substr(at, end - at));
  if (cells.size() != 3) return row + ": three cells are needed; ";
  const std::vector<std::string> paths = code_of(cells[1]), functions = code_of(cells[2]);
  if (paths.size() != 1 || functions.empty())
    return row + ": one file and its functions are needed; ";
  const auto file = files.find(paths[0]);
  if (file == files.end()) return paths[0] + ": no such file; ";
  std::string result;
  for (const std::string& function : functions)
    if (!has_function(file->second, function))
      result += paths[0] + ": no " + function + "; ";
    else if (!has_caller(callers, function))
      result += paths[0] + ": nobody calls " + function + "; ";
  return result;
}

/// The rows of the page's tables, without their heads.
std::vector<std::string> rows_of(const SourceFile& page) {
  std::vector<std::string> rows;
  for (const std::string& line : page.lines)
    if (line.starts_with("| ") && !line.starts_with("| what happens ")) rows.push_back(line);
  return rows;
}

SourceFile walk_page() {
  for (const SourceFile& file : structure::committed_files())
    if (file.path == "docs/walk.md") return file;
  return {};
}

Texts texts_of(const std::vector<SourceFile>& files) {
  Texts texts;
  for (const SourceFile& file : files)
    for (const std::string& line : file.lines) texts[file.path] += line + "\n";
  return texts;
}

}  // namespace

TEST_CASE("every file and function on the walk through a training step exists and is called") {
  const Texts texts = texts_of(structure::library_files());
  Texts callers = texts;
  for (const char* folder : {"models", "tools"})
    callers.merge(texts_of(structure::source_files(folder, {".h", ".cc"})));
  const std::vector<std::string> rows = rows_of(walk_page());
  CHECK(rows.size() >= 30);
  std::string complaints;
  for (const std::string& row : rows) complaints += complaint(row, texts, callers);
  CHECK(complaints == "");
}

TEST_CASE("the walk passes every module between parallelize and the metrics") {
  std::string walk;
  for (const std::string& row : rows_of(walk_page())) walk += row + "\n";
  for (const char* module : {"train", "ir", "ops", "autograd", "plan", "search", "ilp", "mesh",
                             "spmd", "lower", "runtime", "comm", "tensor"})
    CHECK_MESSAGE(walk.find("`src/" + std::string(module) + "/") != std::string::npos, module);
  CHECK(walk.find("`kernels/cpu/") != std::string::npos);
}

TEST_CASE("a missing file and a missing function are told") {
  const Texts files{{"src/a.cc",
                     "int f(int x) { return g<int>(x); }\nvoid Box::open() {}\nint h(int);\n"
                     "int k = a::f(1), l = run(&open);"}};
  const auto told = [&](const std::string& row) { return complaint(row, files, files); };
  CHECK(told("| x | `src/a.cc` | `f`, `g`, `Box::open` |") == "");
  CHECK(told("| x | `src/a.cc` | `x` |") == "src/a.cc: no x; ");
  CHECK(told("| x | `src/a.cc` | `Lid::open` |") == "src/a.cc: no Lid::open; ");
  CHECK(told("| x | `src/a.cc` | `h` |") == "src/a.cc: nobody calls h; ");
  CHECK(told("| x | `src/b.cc` | `f` |") == "src/b.cc: no such file; ");
  CHECK(told("| x | `src/a.cc` | |") ==
        "| x | `src/a.cc` | |: one file and its functions are needed; ");
}

}  // namespace walk_test
