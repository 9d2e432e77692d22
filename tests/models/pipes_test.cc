// Pipes in the place of files: those with another end work, those without are refused and hang
// nobody.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "support/program.h"
#include "support/temporary_file.h"

namespace pipes_test {

using namespace alpa::testing;

namespace {

/// Ended after a minute, with status 124, should it hang.
const std::string kRun =
    "timeout 60 " ALPA_MLP
    " --backend cpu --devices 2 --method data --dim 8 --layers 2 --batch 8 --steps 3 --quiet";

/// A named pipe, gone at the end.
struct Pipe {
  explicit Pipe(const std::string& name) : path(name) { REQUIRE(mkfifo(name.c_str(), 0600) == 0); }
  ~Pipe() { unlink(path.c_str()); }
  std::string path;
};

int lines_in(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

/// Examples of eight features.
std::string table() {
  std::string text;
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) text += std::to_string((row * column) % 7) + ",";
    text += std::to_string(row % 3) + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("a pipe without another end is refused, whatever flag names it") {
  const Pipe pipe("pipes_test.csv");
  const std::string name = "alpa-mlp: ",
                    unread = ": cannot be read: it is a pipe that no program writes to\n",
                    unwritten = ": cannot be written: it is a pipe that no program reads\n";
  const auto said = [&](const std::string& flag, const std::string& program = kRun) {
    const ProgramOutput output = run_shell(program + " " + flag + " pipes_test.csv > /dev/null");
    CHECK(output.status == 2);
    return output.text;
  };
  CHECK(said("--load-plan") == name + "plan file pipes_test.csv" + unread);
  CHECK(said("--cluster", "timeout 60 " ALPA_MLP) == name + "cluster file pipes_test.csv" + unread);
  CHECK(said("--data") == name + "pipes_test.csv" + unread);
  for (const char* flag : {"--save-plan", "--log", "--plot", "--trace", "--report", "--json"})
    CHECK(said(flag) == name + "pipes_test.csv" + unwritten);
}

TEST_CASE("plans and data come through pipes, also from slow programs") {
  const TemporaryFile plan("pipes_test_plan.json", ""), data("pipes_test_data.csv", table());
  REQUIRE(run_shell(kRun + " --save-plan " + plan.path()).status == 0);
  for (const std::string& command :
       {"cat pipes_test_plan.json | " + kRun + " --load-plan /dev/stdin",
        "(sleep 1; cat pipes_test_plan.json) | " + kRun + " --load-plan /dev/stdin",
        "bash -c '" + kRun + " --load-plan <(cat pipes_test_plan.json)'",
        "ln -s /dev/stdin pipes_test.csv; cat pipes_test_data.csv | " + kRun +
            " --data pipes_test.csv"}) {
    const ProgramOutput output =
        run_shell(command + "; status=$?; rm -f pipes_test.csv; exit $status");
    CAPTURE(output.text);
    CHECK(output.status == 0);
  }
}

TEST_CASE("plans and losses go through pipes") {
  const TemporaryFile plan("pipes_test_plan.json", ""), copy("pipes_test_copy.json", "");
  REQUIRE(run_shell(kRun + " --save-plan " + plan.path()).status == 0);
  CHECK(run_shell("bash -c '" + kRun + " --save-plan >(cat > pipes_test_copy.json); wait $!'")
            .status == 0);
  CHECK(copy.content() == plan.content());
  const ProgramOutput printed = run_shell(kRun + " --save-plan /dev/stdout | cat");
  CHECK(printed.text.find(plan.content()) != std::string::npos);
  const Pipe pipe("pipes_test.csv");
  const ProgramOutput log =
      run_shell("cat pipes_test.csv & " + kRun + " --log pipes_test.csv > /dev/null; wait");
  CHECK(log.text.starts_with("step,loss,seconds\n1,"));
  CHECK(lines_in(log.text) == 4);
}

}  // namespace pipes_test
