// Programs with --checkpoint, killed at any instant, end with the losses of a run that never was.
#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "models/killed_runs.h"
#include "support/nightly.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace checkpoint_test {

using namespace alpa::testing;

namespace {

const Training kMlp = {"mlp",
                       {"alpa-mlp", "--dim", "32", "--layers", "2", "--batch", "64", "--devices",
                        "4", "--precision", "f16_mixed"},
                       400};

constexpr const char* kTable = "checkpoint_test_table.csv";

/// 150 rows: the third batch of 64 is short.
void write_table() {
  std::ofstream file(kTable);
  for (int row = 0; row < 150; ++row)
    file << row % 7 << ',' << row % 11 << ',' << row % 13 << ',' << row % 5 << '\n';
}

}  // namespace

TEST_CASE("a killed program goes on with the losses of one that never was, to the last digit") {
  const KilledRuns runs = killed_runs(kMlp, 6, 1);
  CHECK(runs.kills == 6);
  CHECK(runs.wrong == 0);
}

TEST_CASE("SIGTERM and SIGINT save once more; the program ends with 143 and 130") {
  for (const int signal : {SIGTERM, SIGINT}) {
    const TemporaryFolder folder("checkpoint_test_signal");
    Training training = kMlp;
    training.steps = 1'000'000;
    const std::string log = "checkpoint_test_signal.csv";
    const pid_t process = start(words_of(training, log, folder.path()));
    for (int i = 0; i < 600 && losses_in(log).size() < 50; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    kill(process, signal);
    CHECK(status_of(process) == 128 + signal);
    const int last = losses_in(log).rbegin()->first;
    const ProgramOutput listed =
        run_program(ALPA_PROGRAMS "/alpa", {"checkpoint", "list", folder.path()});
    CHECK(listed.status == 0);
    // The loss of the last step may not have been written.
    const bool newest = listed.text.find(fmt::format("{:>12}  ", last)) != std::string::npos ||
                        listed.text.find(fmt::format("{:>12}  ", last + 1)) != std::string::npos;
    CHECK_MESSAGE(newest, last << "\n" << listed.text);
    std::remove(log.c_str());
  }
}

TEST_CASE("a folder with a run is refused without --resume, and the flags need the folder") {
  const TemporaryFolder folder("checkpoint_test_flags");
  Training training = kMlp;
  training.steps = 2;
  std::vector<std::string> words = words_of(training, "checkpoint_test_flags.csv", folder.path());
  CHECK(status_of(start(words)) == 0);
  std::erase(words, "--resume");
  const std::string program = words[0];
  words.erase(words.begin());
  const ProgramOutput refused = run_program(program, words);
  CHECK(refused.status == 2);
  CHECK(refused.text.find("alpa-mlp: --checkpoint " + folder.path() +
                          ": holds a run up to step 2; "
                          "give --resume to continue it, or another directory\n") !=
        std::string::npos);
  const ProgramOutput idle = run_program(program, {"--resume"});
  CHECK(idle.status == 2);
  CHECK(idle.text ==
        "alpa-mlp: --resume has no effect without --checkpoint, which names the directory\n");
  const ProgramOutput unnamed = run_program(program, {"--checkpoint", "", "--steps", "1"});
  CHECK(unnamed.status == 2);
  CHECK(unnamed.text == "alpa-mlp: --checkpoint is empty; give it a value, or leave it out\n");
  std::remove("checkpoint_test_flags.csv");
}

// Others: ALPA_NIGHTLY=1 ALPA_KILLS=COUNT test_models -tc='*1,000 times*' --subcase='moe'
TEST_CASE("a program of any kind, killed 1,000 times, goes on with the losses of one never killed" *
          doctest::skip(!is_nightly())) {
  const Training programs[] = {
      {"mlp", {"alpa-mlp", "--dim", "32", "--layers", "2", "--batch", "64", "--devices", "4"}, 900},
      {"f16",
       {"alpa-mlp", "--dim", "32", "--layers", "2", "--batch", "64", "--devices", "4",
        "--precision", "f16_mixed"},
       900},
      {"short_batches",
       {"alpa-mlp", "--dim", "16", "--layers", "2", "--batch", "64", "--devices", "3", "--data",
        kTable},
       900},
      {"pipeline",
       {"alpa-mlp", "--dim", "16", "--layers", "4", "--batch", "32", "--devices", "4", "--method",
        "pipeline", "--micro-batches", "4"},
       900},
      {"gpt",
       {"alpa-gpt", "--model", "tiny", "--vocabulary", "64", "--sequence", "16", "--batch", "8",
        "--devices", "2"},
       600},
      {"dropout",
       {"alpa-bert", "--model", "tiny", "--vocabulary", "64", "--sequence", "16", "--batch", "8",
        "--devices", "2", "--dropout", "0.2"},
       600},
      {"moe",
       {"alpa-moe", "--model", "tiny", "--vocabulary", "64", "--sequence", "16", "--batch", "8",
        "--devices", "2"},
       300},
      {"wide_resnet",
       {"alpa-wide-resnet", "--model", "tiny", "--batch", "4", "--devices", "2"},
       100},
  };
  const char* const given = std::getenv("ALPA_KILLS");
  const int kills = given == nullptr ? 1000 : std::atoi(given);
  write_table();
  unsigned seed = 1;
  for (const Training& program : programs) {
    ++seed;
    SUBCASE(program.name) {
      const KilledRuns runs = killed_runs(program, kills, seed);
      CHECK(runs.kills == kills);
      CHECK(runs.wrong == 0);
      MESSAGE(std::string(program.name) << ": " << runs.kills << " kills, " << runs.in_training
                                        << " in training, " << runs.resumed << " runs resumed");
    }
  }
  std::remove(kTable);
}

}  // namespace checkpoint_test
