#pragma once
/// The commands of the pages: every ```sh block, as alpa_add_page writes it.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "support/mpirun.h"

namespace alpa::testing {

/// The files of this name of all pages, made by alpa_add_page.
inline std::vector<std::filesystem::path> files_of_pages(const std::string& name) {
  std::vector<std::filesystem::path> found;
  for (const auto& page : std::filesystem::directory_iterator(ALPA_PAGES))
    if (exists(page.path() / name)) found.push_back(page.path() / name);
  return found;
}

/// Text of a command, and what takes its place.
struct Replaced {
  std::string text, by;
};

/// Runs the commands of every page in its folder, and checks that they succeed. Each of `replaced`
/// is in one place of all pages.
inline void check_commands(const std::vector<Replaced>& replaced) {
  const std::vector<std::filesystem::path> scripts = files_of_pages("commands.sh");
  CHECK(!scripts.empty());
  std::vector<int> found(replaced.size());
  for (const std::filesystem::path& script : scripts) {
    CAPTURE(script.string());
    std::stringstream lines;
    lines << std::ifstream(script).rdbuf();
    std::string text = lines.str();
    for (std::size_t i = 0; i < replaced.size(); ++i)
      for (std::size_t at; (at = text.find(replaced[i].text)) != std::string::npos; ++found[i])
        text.replace(at, replaced[i].text.size(), replaced[i].by);
    if (text.find("mpirun") != std::string::npos && !no_mpirun().empty()) {
      MESSAGE(no_mpirun());
      continue;
    }
    const std::string variables = mpirun_variables() + (" PATH=" ALPA_PAGE_PROGRAMS ":$PATH");
    const ProgramOutput output =
        run_shell("cd " + testing::quoted(script.parent_path().string()) + " && export " +
                  variables + " && sh -ec " + testing::quoted(text));
    CHECK_MESSAGE(output.status == 0, output.text);
  }
  CHECK(found == std::vector<int>(replaced.size(), 1));
}

}  // namespace alpa::testing
