// bench/results/README.md lists every result with the pages that cite it.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "structure/pages.h"

namespace results_test {

using namespace alpa::testing;
using structure::SourceFile;

namespace {

/// Rows of the index: each result, and the pages and cluster files that name it.
std::string index_of(const std::vector<SourceFile>& files) {
  std::set<std::string> results;
  for (const SourceFile& file : files)
    if (file.path.starts_with("bench/results/") && file.path.ends_with(".jsonl"))
      results.insert(file.path.substr(14));
  std::string rows;
  for (const std::string& result : results) {
    std::set<std::string> citing;
    for (const SourceFile& file : files) {
      const bool cites = file.path.ends_with(".md") || file.path.starts_with("clusters/");
      if (cites && !file.path.starts_with("bench/") &&
          std::ranges::any_of(file.lines, [&](const std::string& line) {
            return line.find("/" + result) != std::string::npos;
          }))
        citing.insert(file.path);
    }
    std::string list;
    for (const std::string& path : citing) list += (list.empty() ? "`" : ", `") + path + "`";
    rows += "| `" + result + "` | " + (list.empty() ? "no page" : list) + " |\n";
  }
  return rows;
}

}  // namespace

TEST_CASE("the index of results names every result with the pages that cite it") {
  const std::vector<SourceFile> files = structure::committed_files();
  std::string rows;
  for (const SourceFile& file : files)
    if (file.path == "bench/results/README.md")
      for (const std::string& line : file.lines)
        if (line.starts_with("| `")) rows += line + "\n";
  CHECK(rows == index_of(files));
  CHECK(rows.find("-20") == rows.npos);  // a date is in the file, and the newest has the name
}

TEST_CASE("a row of the index lists the citing pages, in order") {
  CHECK(index_of({{"bench/results/a.jsonl", {}},
                  {"bench/results/b.jsonl", {}},
                  {"docs/y.md", {"[1](../bench/results/b.jsonl)"}},
                  {"README.md", {"`bench/results/b.jsonl`"}},
                  {"bench/results/README.md", {"/a.jsonl"}}}) ==
        "| `a.jsonl` | no page |\n| `b.jsonl` | `README.md`, `docs/y.md` |\n");
}

}  // namespace results_test
