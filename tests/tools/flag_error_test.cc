// Mistakes in the flags and arguments of the program alpa.
#include <doctest/doctest.h>

#include <fstream>

#include "support/program.h"
#include "support/temporary_file.h"

namespace flag_error_test {

using namespace alpa::testing;

namespace {

/// What the program prints, one line, after "alpa: ", when it is given a mistake.
std::string mistake(const std::vector<std::string>& words) {
  const ProgramOutput output = run_program(ALPA_TOOL, words);
  CHECK(output.status == 2);
  CHECK(output.text.starts_with("alpa: "));
  CHECK(output.text.find('\n') == output.text.size() - 1);
  return output.text.substr(6, output.text.size() - 7);
}

const char* const kEdges[] = {"",   " ",  "-1", "+1",  "1x",  "0x1",   "1 ",
                              " 1", "\n", "61", "inf", "nan", "1e400", "9223372036854775808"};

}  // namespace

TEST_CASE("commands nobody knows, and arguments of a command that takes none") {
  CHECK(mistake({"plan\nnow"}) == "'plan\\nnow' is not a command; `alpa --help` lists them");
  CHECK(mistake({""}) == "'' is not a command; `alpa --help` lists them");
  for (const char* version : {"version", "--version"})
    CHECK(mistake({version, "5"}) ==
          "The following argument was not expected: 5; --help lists the flags");
}

TEST_CASE("flags of alpa doctor") {
  for (const std::string text : kEdges)
    CHECK(mistake({"doctor", "--seconds", text}) ==
          "--seconds is '" + (text == "\n" ? "\\n" : text) + "'; it must be a number from 0 to 60");
  CHECK(mistake({"doctor", "--fast"}) ==
        "The following argument was not expected: --fast; --help lists the flags");
  CHECK(run_program(ALPA_TOOL, {"doctor", "--help"}).text.find("--seconds NUMBER=0.25") !=
        std::string::npos);
}

TEST_CASE("a file without a name is refused, whether it is read or written") {
  const std::string flag = " is empty; give it a value, or leave it out";
  CHECK(mistake({"plan", "mlp", "tiny", "--cluster", "dgx-a100", "--save", ""}) == "--save" + flag);
  CHECK(mistake({"plan", "mlp", "tiny", "--cluster", "dgx-a100", "--given", ""}) ==
        "--given" + flag);
  CHECK(mistake({"profile", "--output", ""}) == "--output" + flag);
  CHECK(mistake({"report", "plan.json", "--trace", ""}) == "--trace" + flag);
  CHECK(mistake({"report", ""}) == "FILE is empty; give it a value");
  CHECK(mistake({"checkpoint", "list", ""}) == "FOLDER is empty; give it a value");
}

TEST_CASE("arguments of alpa solve") {
  const std::string file = ALPA_SOURCE_DIR "/tests/ilp/data/example.json";
  for (const std::string text : kEdges)
    if (text != "61")
      CHECK(mistake({"solve", file, text}) ==
            "SECONDS is '" + (text == "\n" ? "\\n" : text) +
                "'; it must be a number from 0.001 to 1000000000");
  CHECK(mistake({"solve", file}) == "SECONDS is required; --help lists the flags");
  CHECK(mistake({"solve"}) == "FILE is required; --help lists the flags");
  CHECK(mistake({"solve", file, "1", "2"}) ==
        "The following argument was not expected: 2; --help lists the flags");
  CHECK(run_program(ALPA_TOOL, {"solve", file, "5"}).status == 0);
  CHECK(run_program(ALPA_TOOL, {"solve", "--help"}).text.find("SECONDS") != std::string::npos);
}

TEST_CASE("what alpa profile writes is checked before it measures") {
  CHECK(mistake({"profile", "--output", "/nowhere/c.json", "--seconds", "1e9"}) ==
        "--output: /nowhere/c.json: cannot be written: No such file or directory");
}

TEST_CASE("flags of alpa explain that have no effect on what is explained") {
  const TemporaryFile plan("flag_error_test.json", "{}");
  for (const char* flag : {"--mesh", "--solver-seconds"})
    CHECK(mistake({"explain", plan.path(), flag, "2"}) ==
          std::string(flag) + " has no effect on the plan flag_error_test.json; it is for models");
  CHECK(mistake({"explain", plan.path(), "--devices", "2", "--cluster", "c.json"}) ==
        "--devices has no effect beside --cluster, whose devices count");
}

TEST_CASE("of a flag that is given twice the last one counts") {
  CHECK(mistake({"doctor", "--seconds", "5", "--seconds", "99"}) ==
        "--seconds is '99'; it must be a number from 0 to 60");
  CHECK(run_program(ALPA_TOOL, {"doctor", "--seconds", "99", "--seconds", "0"}).status == 0);
}

}  // namespace flag_error_test
