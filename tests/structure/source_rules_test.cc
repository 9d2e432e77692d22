// Rules that hold for the text of the repository.
#include <doctest/doctest.h>

#include <algorithm>
#include <regex>
#include <set>

#include "structure/source_files.h"

namespace source_rules_test {

using namespace alpa::testing;
using structure::SourceFile;

namespace {

constexpr std::size_t kMaxLines = 600;

std::string place(const SourceFile& file, std::size_t line) {
  return file.path + ":" + std::to_string(line);
}

/// "file:line: text" of the first line of `files` in which `pattern` is found; "" if there is none.
std::string first_match(const std::vector<SourceFile>& files, const std::regex& pattern) {
  for (const SourceFile& file : files)
    for (std::size_t i = 0; i < file.lines.size(); ++i)
      if (std::regex_search(file.lines[i], pattern))
        return place(file, i + 1) + ": " + file.lines[i];
  return "";
}

}  // namespace

TEST_CASE("no header says `using namespace`") {
  const std::regex pattern(R"(^\s*using\s+namespace\b)");
  for (const char* folder : {"include", "src", "kernels", "models", "tests"})
    CHECK(first_match(structure::source_files(folder, {".h"}), pattern) == "");
  CHECK(first_match({{"x.h", {"", " using  namespace std;"}}}, pattern) ==
        "x.h:2:  using  namespace std;");
}

TEST_CASE("public headers include no heavy or private library") {
  const std::string forbidden[] = {
      "iostream", "regex",  "nlohmann/", "CLI/",    "Eigen/",  "unsupported/Eigen",
      "dnnl",     "oneapi", "Cbc",       "Cgl",     "Clp",     "Osi",
      "Coin",     "coin",   "zlib",      "doctest", "src/",    "kernels/",
      "cuda",     "cublas", "cudnn",     "png",     "jpeglib", "nccl",
      "nvrtc"};
  for (const SourceFile& file : structure::source_files("include", {".h"}))
    for (const structure::Include& include : structure::includes_of(file))
      for (const std::string& start : forbidden) {
        if (file.path == "include/alpa/eigen.h" && start == "Eigen/")
          continue;  // for users who have Eigen
        CAPTURE(file.path);
        CAPTURE(include.line);
        CHECK_MESSAGE(!include.target.starts_with(start), include.target);
      }
}

TEST_CASE(
    "alpa.h and eigen.h are at most 52 headers; beside them are those of models and import alone") {
  std::set<std::string> found = {"include/alpa/eigen.h"}, open = {"include/alpa/alpa.h"};
  const std::vector<SourceFile> files = structure::source_files("include", {".h"});
  while (!open.empty()) {
    const std::string path = *open.begin();
    open.erase(path);
    found.insert(path);
    for (const SourceFile& file : files)
      if (file.path == path)
        for (const structure::Include& include : structure::includes_of(file))
          if (include.target.starts_with("alpa/") && !found.contains("include/" + include.target))
            open.insert("include/" + include.target);
  }
  std::set<std::string> all;
  for (const SourceFile& file : files)
    if (!file.path.starts_with("include/alpa/models/") &&
        !file.path.starts_with("include/alpa/import/"))
      all.insert(file.path);
  CHECK(all == found);
  CHECK(all.size() <= 52);
}

TEST_CASE(
    "public headers mark what shared libraries export, from below their includes to the end") {
  const auto is_include = [](const std::string& line) { return line.starts_with("#include"); };
  for (const SourceFile& file : structure::source_files("include", {".h"})) {
    if (file.path == "include/alpa/alpa.h" || file.path == "include/alpa/eigen.h") continue;
    CAPTURE(file.path);
    const auto first = std::ranges::find(file.lines, "#pragma GCC visibility push(default)");
    CHECK(first != file.lines.end());
    CHECK(std::none_of(first, file.lines.end(), is_include));
    CHECK(file.lines.back() == "#pragma GCC visibility pop");
  }
}

TEST_CASE("no source file is longer than 600 lines") {
  for (const char* folder :
       {"include", "src", "kernels", "models", "tools", "bindings", "tests", "bench"})
    for (const SourceFile& file : structure::source_files(folder, {".h", ".cc", ".cu"})) {
      CAPTURE(file.path);
      CHECK(file.lines.size() <= kMaxLines);
    }
}

TEST_CASE("the headers of alpa/models have at most as many lines as the guide says") {
  const std::regex pattern(
      R"(Each is a header of \[alpa/models\]\(\.\./include/alpa/models\), at most (\d+) lines)");
  std::string guide;
  for (const SourceFile& file : structure::committed_files())
    if (file.path == "docs/guide.md")
      for (const std::string& line : file.lines)
        guide += (guide.empty() ? "" : " ") +
                 line.substr(std::min(line.size(), line.find_first_not_of(' ')));
  std::smatch said;
  REQUIRE(std::regex_search(guide, said, pattern));
  const auto most = static_cast<std::size_t>(std::stoi(said[1]));
  const std::vector<SourceFile> headers = structure::source_files("include/alpa/models", {".h"});
  CHECK(headers.size() >= 6);
  for (const SourceFile& file : headers) {
    CAPTURE(file.path);
    CHECK(file.lines.size() <= most);
  }
}

TEST_CASE("no committed file names a path or a package registry of one machine") {
  // Letters in brackets, so that this file does not match itself.
  const std::regex pattern(
      R"((^|[^A-Za-z0-9_.$}/-])/([w]ork|[r]oot|[h]ome)/|registry\.np[m]js|pyp[i]\.org)"
      R"(|files\.python[h]osted|artifact[r]egistry|proxy\.go[l]ang|deb\.deb[i]an\.org)");
  CHECK(first_match(structure::committed_files(), pattern) == "");
  CHECK(first_match({{"x", {std::string("cd /wo") + "rk/main"}}}, pattern) != "");
  CHECK(first_match({{"x", {"src/root/x.cc"}}}, pattern) == "");
}

TEST_CASE("no trace of debugging is left in the library: fmt writes, std::getenv reads") {
  const std::regex pattern(R"((^|[^:\w])(getenv|f?printf|puts)\()");
  for (const char* folder : {"include", "src", "kernels", "models", "tools"})
    CHECK(first_match(structure::source_files(folder, {".h", ".cc", ".cu"}), pattern) == "");
  CHECK(first_match({{"x.cc", {"  if (getenv(\"X\"))"}}}, pattern) != "");
  CHECK(first_match({{"x.cc", {"  std::fprintf(stderr, text);"}}}, pattern) == "");
}

TEST_CASE(
    "test cases stand only in files named *_test.cc, from which the runner's entries are made") {
  const std::regex pattern(R"(^\s*(TEST_CASE|SCENARIO|TEST_SUITE)\w*\()");
  for (const SourceFile& file : structure::source_files("tests", {".h", ".cc"})) {
    if (!file.path.ends_with("_test.cc")) CHECK(first_match({file}, pattern) == "");
    if (file.path.ends_with("_test.cc"))
      CHECK_MESSAGE(first_match({file}, pattern) != "", file.path);
  }
}

TEST_CASE("the operator's record that docs/design.md shows stands so in the file it names") {
  std::vector<std::string> shown;
  for (const SourceFile& file : structure::committed_files()) {
    if (file.path != "docs/design.md") continue;
    const auto fence = std::find(file.lines.begin(), file.lines.end(), "```cpp");
    shown = {fence, std::find(fence, file.lines.end(), "```")};
  }
  REQUIRE(shown.size() > 3);
  REQUIRE(shown[1].starts_with("// src/ops/"));
  for (const SourceFile& file : structure::source_files("src/ops", {".cc"})) {
    if (file.path != shown[1].substr(3)) continue;
    CHECK(std::search(file.lines.begin(), file.lines.end(), shown.begin() + 2, shown.end()) !=
          file.lines.end());
    shown.clear();
  }
  CHECK_MESSAGE(shown.empty(), "no such file");
}

}  // namespace source_rules_test
