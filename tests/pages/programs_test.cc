// The programs in README.md and docs/guide.md do what these pages say.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "support/program.h"

namespace programs_test {

namespace {

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

/// Runs the program of page `name` in its folder, and compares what it
/// prints with what the page says.
void check_page(const std::string& name) {
  const std::string folder = ALPA_PAGES "/" + name;
  const alpa::testing::ProgramOutput output =
      alpa::testing::run_shell("cd '" + folder + "' && " ALPA_PAGE_PROGRAMS "/page_" + name);
  CAPTURE(output.text);
  CHECK(output.status == 0);
  const std::vector<std::string> expected = words_of(std::ifstream(folder + "/expected.txt"));
  const std::vector<std::string> actual = words_of(std::istringstream(output.text));
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CAPTURE(expected[i]);
    CHECK_MESSAGE(agree(expected[i], actual[i]), actual[i]);
  }
}

}  // namespace

TEST_CASE("the README's program prints what the README says") { check_page("readme"); }

TEST_CASE("the guide's program prints what the guide says") { check_page("guide"); }

TEST_CASE("only numbers may differ, and only in their last digits") {
  CHECK(agree("step", "step"));
  CHECK(agree("0.9999", "0.9998"));
  CHECK_FALSE(agree("step", "stop"));
  CHECK_FALSE(agree("1.00", "1.01"));
  CHECK_FALSE(agree("1.00", "1.0000"));
}

}  // namespace programs_test
