// What `alpa` prints and reads, and what becomes of it when the disk is full or the file is no
// file.
#include <doctest/doctest.h>

#include <string>

#include "support/gzip.h"
#include "support/program.h"
#include "support/temporary_file.h"

namespace output_test {

using namespace alpa::testing;

namespace {

const std::string kProblem = ALPA_SOURCE_DIR "/tests/ilp/data/example.json";

const std::string kLost = "standard output cannot be written: No space left on device\n";

}  // namespace

TEST_CASE("output that can't be written is a failure") {
  for (const std::string& arguments :
       {"solve " + kProblem + " 5", std::string("version"), std::string("--help")}) {
    const ProgramOutput output = run_shell(ALPA_TOOL " " + arguments + " > /dev/full");
    CHECK(output.text == "alpa: " + kLost);
    CHECK(output.status == 2);
  }
  CHECK(run_shell(ALPA_TOOL " solve " + kProblem + " 5").status == 0);
}

TEST_CASE("what can't be read is one line that names the file, and status 2") {
  const auto solve_error = [](const std::string& path) {
    const ProgramOutput output = run_shell(ALPA_TOOL " solve " + path + " 5");
    CHECK(output.status == 2);
    return output.text;
  };
  CHECK(solve_error("/dev/zero") ==
        "alpa: /dev/zero: cannot be read: it is a device, not a file\n");
  CHECK(solve_error("/tmp") == "alpa: /tmp: cannot be read: it is a folder, not a file\n");
  const TemporaryFile large("output_test.json", R"({"problem": 1e400})");
  CHECK(solve_error(large.path()) ==
        "alpa: output_test.json: a number is too large for a double; write a smaller one\n");
  const TemporaryFile deep("output_test.json", std::string(1'000'000, '['));
  CHECK(solve_error(deep.path()) ==
        "alpa: output_test.json: line 1, column 65: lists and objects are nested more than 64 "
        "deep\n");
  const TemporaryFile bomb("output_test.json", gzipped(std::string(std::size_t{200} << 20, ' ')));
  CHECK(solve_error("output_test.json").find(": unpacked it holds more than ") !=
        std::string::npos);
}

TEST_CASE("a contest problem comes through a pipe too") {
  CHECK(run_shell("cat " + kProblem + " | " ALPA_TOOL " solve /dev/stdin 5")
            .text.starts_with("cost "));
  CHECK(run_shell("timeout 60 " ALPA_TOOL " solve /dev/stdout 5 | cat").text ==
        "alpa: /dev/stdout: cannot be read: it is this program's own output\n");
}

TEST_CASE("too little memory is one line, not an internal error") {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which reserve terabytes
  const TemporaryFile big("output_test.json",
                          "[" + std::string(std::size_t{100} << 20, ' ') + "1]");
  const ProgramOutput output =
      run_shell("ulimit -v 150000; " ALPA_TOOL " solve output_test.json 5");
  CHECK(output.text == "alpa: output_test.json: its content does not fit in memory\n");
  CHECK(output.status == 2);
#endif
}

}  // namespace output_test
