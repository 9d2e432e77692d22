// What alpa-mlp writes, and what becomes of it when the disk is full.
#include <doctest/doctest.h>

#include <string>

#include "support/program.h"
#include "support/temporary_file.h"

namespace output_test {

using namespace alpa::testing;

namespace {

const std::string kMlp =
    ALPA_MLP " --backend cpu --devices 2 --method data --dim 8 --layers 2 --batch 8 --steps 2";

const std::string kLost = "standard output cannot be written: No space left on device\n";

}  // namespace

TEST_CASE("output that can't be written is a failure") {
  CHECK(run_shell(kMlp + " > /dev/full").text == "alpa-mlp: " + kLost);
  CHECK(run_shell(kMlp + " > /dev/full").status == 2);
  CHECK(run_shell(kMlp + " --help > /dev/full").status == 2);
}

TEST_CASE("a report or plan that can't be written is a failure, and the old plan stays") {
  const TemporaryFile plan("output_test.json", "the old plan");
  const ProgramOutput output =
      run_shell("ulimit -f 1; " + kMlp + " --save-plan output_test.json > /dev/null");
  CHECK(output.text ==
        "alpa-mlp: output_test.json: cannot be written: File too large; what it held before is "
        "unchanged\n");
  CHECK(output.status == 2);
  CHECK(plan.content() == "the old plan");
  CHECK(run_shell(kMlp + " --json /dev/full > /dev/null").text ==
        "alpa-mlp: /dev/full: cannot be written: No space left on device\n");
}

TEST_CASE("a dump that can't be written is a failure") {
  const ProgramOutput output =
      run_shell("ulimit -f 1; " + kMlp + " --dump output_test_dump > /dev/null");
  CHECK(output.text.find(": cannot be written: File too large") != std::string::npos);
  CHECK(output.status == 2);
  run_shell("rm -r output_test_dump");
}

TEST_CASE(
    "under a limit on the size of files a run ends with the name of the file it cannot write") {
  const std::string folder = "output_test_limited";
  const auto limited = [&](const std::string& more) {
    return run_shell("ulimit -f 8; " + kMlp + " --quiet --dim 256 " + more + " > /dev/null");
  };
  const ProgramOutput saved = limited("--checkpoint " + folder);
  CHECK(saved.status == 2);
  CHECK(saved.text.starts_with("alpa-mlp: " + folder + "/.unfinished-"));
  CHECK(saved.text.ends_with("/shard-0-of-1.safetensors: cannot be written: File too large\n"));
  CHECK(run_shell("ls " + folder).text.empty());
  const ProgramOutput page = limited("--report output_test_page.html");
  CHECK(page.status == 2);
  CHECK(page.text == "alpa-mlp: output_test_page.html: cannot be written: File too large\n");
  const ProgramOutput lines =
      run_shell("(ulimit -f 1; " + kMlp + " --explain=full) > output_test_lines.txt");
  CHECK(lines.status == 2);
  CHECK(lines.text == "alpa-mlp: standard output cannot be written: File too large\n");
  run_shell("rm -rf output_test_lines.txt " + folder);
}

TEST_CASE("a report to /dev/stdout follows what was printed before") {
  const TemporaryFile file("output_test.txt", "");
  run_shell(kMlp + " --plan-only --json /dev/stdout > output_test.txt");
  const std::string text = file.content();
  CHECK(text.starts_with("plan "));
  CHECK(text.find("\n{\n  \"method\": \"data\"") != std::string::npos);
  CHECK(text.ends_with("}\n"));
}

TEST_CASE("files that are none of its kind") {
  CHECK(run_shell(ALPA_MLP " --cluster /dev/zero")
            .text.ends_with(
                "alpa-mlp: cluster file /dev/zero: cannot be read: it is a device, not a file\n"));
  CHECK(run_shell(kMlp + " --load-plan /tmp")
            .text.ends_with(
                "alpa-mlp: plan file /tmp: cannot be read: it is a folder, not a file\n"));
  REQUIRE(run_shell("ln -s /dev/zero output_test_zero.csv").status == 0);
  CHECK(run_shell(kMlp + " --data output_test_zero.csv")
            .text.ends_with("output_test_zero.csv: cannot be read: it is a device, not a file\n"));
  run_shell("rm output_test_zero.csv");
}

}  // namespace output_test
