// What of a text alpa-gpt keeps for its test, and says about it.
#include <doctest/doctest.h>

#include "support/program.h"
#include "support/temporary_file.h"

namespace test_share_test {

using namespace alpa::testing;

namespace {

/// alpa-gpt on a text of 300 bytes, in batches of 16 tokens each.
ProgramOutput trained(const std::string& path, const std::vector<std::string>& more,
                      const std::string& batch = "1") {
  std::vector<std::string> words{"--data",  path, "--sequence", "16", "--batch",   batch,
                                 "--steps", "2",  "--devices",  "1",  "--backend", "cpu"};
  words.insert(words.end(), more.begin(), more.end());
  return run_program(ALPA_PROGRAMS "/alpa-gpt", words);
}

/// The last line, without the program's name.
std::string mistake(const ProgramOutput& output) {
  CHECK(output.status == 2);
  return output.text.substr(output.text.rfind("alpa-gpt: ") + 10);
}

}  // namespace

TEST_CASE("the end of a text is kept for a test, as --test-share says, and messages say it, too") {
  const TemporaryFile text("test_share_test.txt", std::string(300, 'a'));
  const std::string data = "--data " + text.path() + " has 300 tokens";
  CHECK(mistake(trained(text.path(), {})) ==
        data +
            ", of which --test-share 0.05 keeps 15 for the test; a batch of 16 needs one more: "
            "give a longer text, smaller batches, or --test-share 0\n");
  CHECK(mistake(trained(text.path(), {"--test-share", "0.1"}, "18")) ==
        data + ", 30 of them for the test (--test-share); a batch of 288 needs one more\n");
  CHECK(mistake(trained(text.path(), {"--test-share", "0"}, "19")) ==
        data + "; a batch of 304 needs one more\n");
  const ProgramOutput with = trained(text.path(), {"--test-share", "0.1"}),
                      without = trained(text.path(), {"--test-share", "0"});
  CHECK(with.status == 0);
  CHECK(without.status == 0);
  CHECK(with.text.find("\ntest loss") != std::string::npos);
  CHECK(without.text.find("\ntest loss") == std::string::npos);
  CHECK(mistake(trained("made", {"--test-share", "0.1"})) ==
        "--test-share has no effect with --data made, which has no test\n");
}

}  // namespace test_share_test
