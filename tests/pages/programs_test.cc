// The programs, commands and files on the pages do what the pages say.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "alpa/mesh/cluster.h"
#include "pages/commands.h"
#include "support/nightly.h"

namespace programs_test {

namespace {

namespace fs = std::filesystem;

/// Processors differ in the last bits of a sum, and a printed digit may follow.
constexpr double kTolerance = 1e-3;

std::vector<std::string> words_of(std::istream&& stream) {
  std::vector<std::string> result;
  for (std::string word; stream >> word;) result.push_back(word);
  return result;
}

/// True if the words are equal, or numbers with the same number of characters that nearly are.
bool agree(const std::string& left, const std::string& right) {
  if (left == right) return true;
  char *left_end = nullptr, *right_end = nullptr;
  const double a = std::strtod(left.c_str(), &left_end), b = std::strtod(right.c_str(), &right_end);
  const bool numbers = *left_end == '\0' && *right_end == '\0' && left.size() == right.size();
  return numbers && std::abs(a - b) <= kTolerance * std::max(std::abs(a), std::abs(b));
}

/// Runs the program of a page in its folder, and compares what it prints with what the page says.
void check_page(const fs::path& folder) {
  const alpa::testing::ProgramOutput output = alpa::testing::run_shell(
      "cd '" + folder.string() + "' && " ALPA_PAGE_PROGRAMS "/page_" + folder.filename().string());
  CAPTURE(output.text);
  CHECK(output.status == 0);
  const std::vector<std::string> expected = words_of(std::ifstream(folder / "expected.txt"));
  const std::vector<std::string> actual = words_of(std::istringstream(output.text));
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CAPTURE(expected[i]);
    CHECK_MESSAGE(agree(expected[i], actual[i]), actual[i]);
  }
}

}  // namespace

TEST_CASE("the program of every page prints what the page says") {
  const std::vector<fs::path> programs = alpa::testing::files_of_pages("program.cc");
  CHECK(programs.size() >= 2);
  for (const fs::path& program : programs) {
    CAPTURE(program.string());
    check_page(program.parent_path());
  }
}

#if ALPA_PAGE_COMMANDS  // the programs are built
TEST_CASE("the commands of every page succeed, by day with smaller models and less time") {
  const std::vector<alpa::testing::Replaced> smaller = {{" gpt 125M ", " gpt tiny "},
                                                        {" --model 2.4B ", " --model tiny "},
                                                        {" --time-limit 120 ", " --time-limit 6 "},
                                                        {" --seconds 3 ", " --seconds 0.3 "}};
  alpa::testing::check_commands(alpa::testing::sampled(smaller, {}));
}
#endif

TEST_CASE("the cluster file of the page on the cost model loads") {
  const std::vector<fs::path> files = alpa::testing::files_of_pages("cluster.json");
  REQUIRE(files.size() == 1);
  CHECK(alpa::Cluster::from_file(files[0].string()).num_devices() == 8);
}

TEST_CASE("only numbers may differ, and only in their last digits") {
  CHECK(agree("step", "step"));
  CHECK(agree("0.9999", "0.9998"));
  CHECK_FALSE(agree("step", "stop"));
  CHECK_FALSE(agree("1.00", "1.01"));
  CHECK_FALSE(agree("1.00", "1.0000"));
}

}  // namespace programs_test
