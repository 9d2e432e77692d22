// The largest difference of parameters, in what --compare and the demo print and in the JSON
// report.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "models/common/report.h"
#include "support/program.h"

namespace difference_test {

using namespace alpa::testing;
using programs::largest_difference;

namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInfinity = std::numeric_limits<double>::infinity();

/// What alpa-mlp prints of a small step of SGD, compared with one device.
std::string compared(const char* learning_rate, const std::vector<std::string>& more = {}) {
  std::vector<std::string> flags = {"--dim",           "4",           "--batch",     "8",
                                    "--devices",       "2",           "--layers",    "2",
                                    "--steps",         "2",           "--optimizer", "sgd",
                                    "--backend",       "cpu",         "--json",      "/dev/stdout",
                                    "--learning-rate", learning_rate, "--compare"};
  flags.insert(flags.end(), more.begin(), more.end());
  return run_program(ALPA_MLP, flags).text;
}

/// `compared`, with data parallelism on more devices and rows.
std::string compared_on_8(const std::vector<std::string>& more) {
  std::vector<std::string> flags = {"--devices", "8",   "--method",        "data", "--dim",   "64",
                                    "--batch",   "128", "--micro-batches", "2",    "--steps", "4"};
  flags.insert(flags.end(), more.begin(), more.end());
  return compared("0.1", flags);
}

}  // namespace

TEST_CASE("NaN anywhere makes the difference NaN, wherever it comes") {
  CHECK(largest_difference({1, 2, 3}, {1, 5, 3}) == 3);
  CHECK(largest_difference({}, {}) == 0);
  for (std::size_t place : {0, 1, 2}) {
    std::vector<double> numbers = {1, 2, 3}, with_nan = numbers;
    with_nan[place] = kNan;
    CHECK(std::isnan(largest_difference(numbers, with_nan)));
    CHECK(std::isnan(largest_difference(with_nan, numbers)));
    CHECK(std::isnan(largest_difference(with_nan, with_nan)));
  }
}

TEST_CASE("the same infinity is not a difference, any other an infinite one") {
  CHECK(largest_difference({kInfinity, -kInfinity}, {kInfinity, -kInfinity}) == 0);
  CHECK(largest_difference({kInfinity}, {-kInfinity}) == kInfinity);
  CHECK(largest_difference({1, 3}, {1, kInfinity}) == kInfinity);
}

TEST_CASE("a comparison of runs that diverged says so, and never 0") {
  const std::string text = compared("1e39");
  CAPTURE(text);
  CHECK(text.find("difference  not a number: parameters of this run, "
                  "of the run on one device or of both are NaN; lower --learning-rate\n") !=
        text.npos);
  CHECK(text.find("\"max_abs_parameter_difference\": \"nan\",") != text.npos);
}

TEST_CASE("a comparison of runs that agree is a small number") {
  const std::string text = compared("0.1"), line = "difference  ";
  CAPTURE(text);
  const std::size_t at = text.find(line);
  REQUIRE(at != text.npos);
  CHECK(std::stod(text.substr(at + line.size())) < 1e-6);
  CHECK(text.find("\"max_abs_parameter_difference\": \"") == text.npos);
}

TEST_CASE("with --reproducible there is no difference") {
  const std::string none = "difference  0 at most", text = compared_on_8({"--reproducible"});
  CAPTURE(text);
  CHECK(text.find(none) != text.npos);
  CHECK(compared_on_8({}).find(none) == std::string::npos);
}

TEST_CASE("experts differ by who gets a last place, which follows from rounding alone") {
  const auto difference = [](const std::vector<std::string>& more) {
    std::vector<std::string> flags = {"--devices", "6",   "--steps",  "3",
                                      "--backend", "cpu", "--compare"};
    flags.insert(flags.end(), more.begin(), more.end());
    const std::string text = run_program(ALPA_PROGRAMS "/alpa-moe", flags).text,
                      line = "difference  ";
    CAPTURE(text);
    const std::size_t at = text.find(line);
    REQUIRE(at != text.npos);
    return std::stod(text.substr(at + line.size()));
  };
  CHECK(difference({"--reproducible"}) == 0);
  CHECK(difference({"--optimizer", "sgd"}) < 1e-5);  // Adam makes whole steps of roundings
}

}  // namespace difference_test
