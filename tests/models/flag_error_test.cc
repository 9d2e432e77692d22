// Mistakes on a command line: the table's messages, and every flag of alpa-mlp
// with values at the edges.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "models/common/flags.h"
#include "support/error_text.h"
#include "support/nightly.h"
#include "support/program.h"

namespace flag_error_test {

using namespace alpa;
using namespace alpa::testing;
using programs::Flags;

namespace {

/// The error of a command line.
std::string parse_error(std::vector<const char*> words) {
  Flags flags;
  words.insert(words.begin(), "program");
  return error_of([&] {
    CHECK_FALSE(cli::parse(static_cast<int>(words.size()), words.data(), "purpose",
                           programs::rows_of(flags)));
  });
}

/// A folder of its own for what programs write; it goes with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() : before_(std::filesystem::current_path()) {
    char name[] = "/tmp/alpa_flags_XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path_ = name;
    std::filesystem::current_path(path_);
  }
  ~TemporaryFolder() {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(path_);
  }

 private:
  std::filesystem::path before_, path_;
};

/// The small step that the tests plan.
const std::vector<std::string> kSmall = {"--plan-only", "--dim",     "4",  "--batch",
                                         "8",           "--layers",  "2",  "--devices",
                                         "2",           "--backend", "cpu"};

/// `kSmall` with the value of `flag` replaced, or `flag` added.
std::vector<std::string> small_with(const std::string& flag, const std::string& value) {
  std::vector<std::string> words = kSmall;
  const auto found = std::find(words.begin(), words.end(), flag);
  if (found != words.end())
    *(found + 1) = value;
  else
    words.insert(words.end(), {flag, value});
  return words;
}

/// Every flag that takes a value, as the help lists them.
std::vector<std::string> flags_with_value() {
  std::istringstream help(run_program(ALPA_MLP, {"--help"}).text);
  std::vector<std::string> flags;
  for (std::string line; std::getline(help, line);) {
    std::istringstream words(line);
    std::string name, value;
    words >> name >> value;
    for (const char* kind : {"N", "NUMBER", "WORD", "TEXT"})
      if (name.starts_with("--") && (value == kind || value.starts_with(std::string(kind) + "=")))
        flags.push_back(name);
  }
  return flags;
}

bool is_one_line(const std::string& text) {
  return !text.empty() && text.find('\n') == text.size() - 1;
}

/// The line of alpa-mlp that refuses its arguments.
std::string refused(const std::vector<std::string>& words) {
  const ProgramOutput output = run_program(ALPA_MLP, words);
  CHECK(output.status == 2);
  CHECK(is_one_line(output.text));
  return output.text;
}

}  // namespace

TEST_CASE("a value that is not allowed is named with its flag and what is allowed") {
  CHECK(parse_error({"--devices", "0"}) ==
        "--devices is '0'; it must be a whole number from 1 to 1024");
  CHECK(parse_error({"--micro-batches", "4294967297"}) ==
        "--micro-batches is '4294967297'; it must be auto or a number");
  CHECK(parse_error({"--batch=9223372036854775808"}) ==
        "--batch is '9223372036854775808'; it must be a whole number from 1 to 2147483647");
  CHECK(parse_error({"--memory-budget", "1e9"}) ==
        "--memory-budget is '1e9'; it must be a whole number from 1 to 9223372036854775807");
  CHECK(parse_error({"--learning-rate", "inf"}) ==
        "--learning-rate is 'inf'; it must be a finite number above 0");
  CHECK(parse_error({"--learning-rate", "0"}) ==
        "--learning-rate is '0'; it must be a finite number above 0");
  CHECK(parse_error({"--backend", "tpu"}) == "--backend is 'tpu'; it must be auto, cpu or cuda");
  CHECK(parse_error({"--optimizer", ""}) ==
        "--optimizer is ''; it must be adam, adamw, adamw_bf16, adamw_8bit, sgd, lamb, lion or "
        "adafactor");
  CHECK(parse_error({"--mesh", "2x"}) ==
        "--mesh is '2x'; it must be auto or sizes like 8, 1x8 or 2x4");
  CHECK(parse_error({"--seed", "5\n6"}) ==
        "--seed is '5\\n6'; it must be a whole number from 0 to 9223372036854775807");
}

TEST_CASE("flags nobody knows, or without their value") {
  CHECK(parse_error({"--fast"}) ==
        "The following argument was not expected: --fast; --help lists the flags");
  CHECK(parse_error({"--steps"}) == "--steps: 1 required N missing; --help lists the flags");
  CHECK(parse_error({"--compare=2"}) ==
        "compare was given a disallowed flag override; --help lists the flags");
}

TEST_CASE("what is not on the command line stays, and what is takes its value in base ten") {
  Flags flags;
  const char* words[] = {
      "program", "--devices",       "010", "--memory-budget", "9223372036854775807",
      "--tf32",  "--learning-rate", "1e39"};
  CHECK_FALSE(cli::parse(std::size(words), words, "purpose", programs::rows_of(flags)));
  CHECK(flags.devices == 10);
  CHECK(flags.memory_budget == 9223372036854775807);
  CHECK(flags.tf32);
  CHECK(flags.learning_rate == 1e39);
  CHECK(flags.micro_batches == "1");
  CHECK_FALSE(flags.compare);
}

TEST_CASE("a cluster file and a backend that contradict each other") {
  const TemporaryFolder folder;
  std::ofstream("c.json") << Cluster::local(2).to_json();
  Flags flags;
  flags.cluster = "c.json";
  flags.backend = "cuda";
  CHECK(error_of([&] { programs::make_cluster(flags); }) ==
        "--backend is 'cuda', but the devices of --cluster c.json are of backend 'cpu'; "
        "leave one of the two out");
}

TEST_CASE(
    "every flag of alpa-mlp with values at the edges: a plan, or one line and exit status 2") {
  const TemporaryFolder folder;
  const std::vector<std::string> values = {"",
                                           " ",
                                           "0",
                                           "-1",
                                           "1",
                                           "5",
                                           " 5",
                                           "5 ",
                                           "+5",
                                           "5.0",
                                           "5x",
                                           "010",
                                           "0x10",
                                           "1e2",
                                           "2147483647",
                                           "2147483648",
                                           "4294967297",
                                           "4611686018427387904",
                                           "9223372036854775807",
                                           "9223372036854775808",
                                           "1e400",
                                           "1e-400",
                                           "inf",
                                           "nan"};
  const std::vector<std::string> flags = flags_with_value();
  CHECK(flags.size() == 40);
  const std::size_t every = sampled(5, 1);  // by day of each flag every fifth, another one in turn
  for (std::size_t f = 0; f < flags.size(); ++f)
    for (std::size_t v = f % every; v < values.size(); v += every) {
      const std::string &flag = flags[f], &value = values[v];
      CAPTURE(flag);
      CAPTURE(value);
      const ProgramOutput output = run_program(ALPA_MLP, small_with(flag, value));
      CAPTURE(output.text);
      const bool planned = output.status == 0 && output.text.starts_with("plan        ");
      CHECK((planned || (output.status == 2 && output.text.starts_with("alpa-mlp: ") &&
                         is_one_line(output.text))));
      if (flag == "--plan-cache" && !value.empty()) std::filesystem::remove_all(value);
    }
}

TEST_CASE("no flag takes an empty value: what names a file, a folder or a text says so") {
  const std::set<std::string> named = {
      "--cluster", "--plan-cache", "--load-plan",  "--save-plan", "--trace",
      "--report",  "--log",        "--checkpoint", "--plot",      "--json",
      "--dump",    "--data",       "--tensorboard"};
  std::set<std::string> found;
  for (const std::string& flag : flags_with_value()) {
    CAPTURE(flag);
    const std::string text = refused(small_with(flag, ""));
    if (text != "alpa-mlp: " + flag + " is empty; give it a value, or leave it out\n")
      CHECK(text.starts_with("alpa-mlp: " + flag + " is ''; it must be "));
    else
      found.insert(flag);
    CHECK(refused({flag + "="}).starts_with("alpa-mlp: " + flag + ": 1 required "));
  }
  CHECK(found == named);
}

TEST_CASE("switches take no value") {
  for (const char* flag :
       {"--demo", "--compare", "--plan-only", "--reproducible", "--tf32", "--progress"})
    for (const char* value : {"=1", "=9223372036854775808", "=nan", "=0x10"}) {
      const ProgramOutput output = run_program(ALPA_MLP, {std::string(flag) + value});
      CHECK(output.status == 2);
      CHECK(
          output.text ==
          fmt::format("alpa-mlp: {} was given a disallowed flag override; --help lists the flags\n",
                      flag + 2));
    }
}

}  // namespace flag_error_test
