// What the programs print, and what becomes of it when the disk is full.
#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "support/gzip.h"
#include "support/temporary_file.h"

using alpa::testing::TemporaryFile;

namespace {

const std::string kProblem = ALPA_SOURCE_DIR "/tests/ilp/data/example.json";

struct Output {
  std::string text;  ///< of stderr, after that of stdout unless the command redirects it
  int status = 0;
};

/// The shell's view of `program arguments`.
Output run(const std::string& command) {
  std::FILE* pipe = popen(("(" + command + ") 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  Output output;
  char chunk[4096];
  while (const std::size_t size = std::fread(chunk, 1, sizeof chunk, pipe)) output.text.append(chunk, size);
  output.status = WEXITSTATUS(pclose(pipe));
  return output;
}

const std::string kLost = "standard output cannot be written: No space left on device\n";

}  // namespace

TEST_CASE("output that can't be written is a failure") {
  for (const std::string& arguments : {"solve " + kProblem + " 5", std::string("version"), std::string("--help")}) {
    const Output output = run(ALPA_TOOL " " + arguments + " > /dev/full");
    CHECK(output.text == "alpa: " + kLost);
    CHECK(output.status == 2);
  }
  CHECK(run(ALPA_TOOL " solve " + kProblem + " 5").status == 0);
}

TEST_CASE("what can't be read is one line that names the file, and status 2") {
  const auto solve_error = [](const std::string& path) {
    const Output output = run(ALPA_TOOL " solve " + path + " 5");
    CHECK(output.status == 2);
    return output.text;
  };
  CHECK(solve_error("/dev/zero") == "alpa: /dev/zero: cannot be read: it is a device, not a file\n");
  CHECK(solve_error("/tmp") == "alpa: /tmp: cannot be read: it is a folder, not a file\n");
  const TemporaryFile large("output_test.json", R"({"problem": 1e400})");
  CHECK(solve_error(large.path()) ==
        "alpa: output_test.json: a number is too large for a double; write a smaller one\n");
  const TemporaryFile deep("output_test.json", std::string(1'000'000, '['));
  CHECK(solve_error(deep.path()) ==
        "alpa: output_test.json: line 1, column 65: lists and objects are nested more than 64 deep\n");
  const TemporaryFile bomb("output_test.json", alpa::testing::gzipped(std::string(std::size_t{200} << 20, ' ')));
  CHECK(solve_error("output_test.json").find(": unpacked it holds more than ") != std::string::npos);
}

TEST_CASE("a contest problem comes through a pipe too") {
  CHECK(run("cat " + kProblem + " | " ALPA_TOOL " solve /dev/stdin 5").text.starts_with("cost "));
}

TEST_CASE("too little memory is one line, not an internal error") {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which reserve terabytes
  const TemporaryFile big("output_test.json", "[" + std::string(std::size_t{100} << 20, ' ') + "1]");
  const Output output = run("ulimit -v 150000; " ALPA_TOOL " solve output_test.json 5");
  CHECK(output.text == "alpa: output_test.json: its content does not fit in memory\n");
  CHECK(output.status == 2);
#endif
}

#ifdef ALPA_MLP
namespace {

const std::string kMlp = ALPA_MLP
    " --backend cpu --devices 2 --method data --dim 8 --layers 2 --batch 8 --steps 2";

}  // namespace

TEST_CASE("alpa-mlp: output that can't be written is a failure") {
  CHECK(run(kMlp + " > /dev/full").text == "alpa-mlp: " + kLost);
  CHECK(run(kMlp + " > /dev/full").status == 2);
  CHECK(run(kMlp + " --help > /dev/full").status == 2);
}

TEST_CASE("alpa-mlp: a report or plan that can't be written is a failure, and the old plan stays") {
  const TemporaryFile plan("output_test.json", "the old plan");
  const Output output = run("ulimit -f 1; trap '' XFSZ; " + kMlp + " --save-plan output_test.json > /dev/null");
  CHECK(output.text ==
        "alpa-mlp: output_test.json: cannot be written: File too large; what it held before is unchanged\n");
  CHECK(output.status == 2);
  CHECK(plan.content() == "the old plan");
  CHECK(run(kMlp + " --json /dev/full > /dev/null").text ==
        "alpa-mlp: /dev/full: cannot be written: No space left on device\n");
}

TEST_CASE("alpa-mlp: a dump that can't be written is a failure") {
  const Output output = run("ulimit -f 1; trap '' XFSZ; " + kMlp + " --dump output_test_dump > /dev/null");
  CHECK(output.text.find(": cannot be written: File too large") != std::string::npos);
  CHECK(output.status == 2);
  run("rm -r output_test_dump");
}

TEST_CASE("alpa-mlp: a report to /dev/stdout follows what was printed before") {
  const TemporaryFile file("output_test.txt", "");
  run(kMlp + " --plan-only --json /dev/stdout > output_test.txt");
  const std::string text = file.content();
  CHECK(text.starts_with("plan "));
  CHECK(text.find("\n{\n  \"method\": \"data\"") != std::string::npos);
  CHECK(text.ends_with("}\n"));
}

TEST_CASE("alpa-mlp: files that are none of its kind") {
  CHECK(run(kMlp + " --cluster /dev/zero").text.ends_with(
      "alpa-mlp: cluster file /dev/zero: cannot be read: it is a device, not a file\n"));
  CHECK(run(kMlp + " --load-plan /tmp").text.ends_with(
      "alpa-mlp: plan file /tmp: cannot be read: it is a folder, not a file\n"));
  REQUIRE(run("ln -s /dev/zero output_test_zero.csv").status == 0);
  CHECK(run(kMlp + " --data output_test_zero.csv").text.ends_with(
      "alpa-mlp: output_test_zero.csv: cannot be read: it is a device, not a file\n"));
  run("rm output_test_zero.csv");
}
#endif
