// Programs with --checkpoint, killed at any instant, end with the losses of a run that never was.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace checkpoint_test {

using alpa::testing::ProgramOutput;
using alpa::testing::TemporaryFolder;

namespace {

/// A program and its flags, without those of checkpoints.
struct Training {
  const char* name;
  std::vector<std::string> words;
  int steps;
};

std::vector<std::string> words_of(const Training& training, const std::string& log,
                                  const std::string& folder) {
  std::vector<std::string> words = training.words;
  words[0] = ALPA_PROGRAMS "/" + words[0];
  for (const std::string& word : {std::string("--steps"), std::to_string(training.steps),
                                  std::string("--quiet"), std::string("--log"), log})
    words.push_back(word);
  if (!folder.empty())
    for (const char* word : {"--checkpoint-every", "3", "--resume", "--checkpoint"})
      words.push_back(word);
  if (!folder.empty()) words.push_back(folder);
  return words;
}

/// Losses by step, as text: equal text is equal bits, since the log holds all digits.
std::map<int, std::string> losses_in(const std::string& log) {
  std::map<int, std::string> losses;
  std::ifstream file(log);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::string step, loss, seconds;
    if (std::getline(cells, step, ',') && std::getline(cells, loss, ',') &&
        std::getline(cells, seconds, ',') && !seconds.empty())
      losses[std::stoi(step)] = loss;
  }
  return losses;
}

/// Starts a program without output.
pid_t start(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::fflush(stdout);
  const pid_t process = fork();
  if (process == 0) {
    if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(1);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  return process;
}

/// The status of a process: of its exit, or 1000 + the signal that ended it.
int status_of(pid_t process) {
  int status = 0;
  waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/// Runs until the end, killed after random times, `kills` times at most. Returns how often the
/// losses of a run, killed or not, differ from the expected ones.
int differences_of_killed_runs(const Training& training, int kills, unsigned seed) {
  const TemporaryFolder folder(std::string("checkpoint_test_") + training.name);
  const std::string log = std::string("checkpoint_test_") + training.name + ".csv";
  REQUIRE(status_of(start(words_of(training, log, ""))) == 0);
  const std::map<int, std::string> expected = losses_in(log);
  REQUIRE(std::ssize(expected) == training.steps);
  std::mt19937 random(seed);
  int wrong = 0;
  for (int run = 0; run <= kills; ++run) {
    const pid_t process = start(words_of(training, log, folder.path()));
    if (run < kills) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20 + random() % 400));
      kill(process, SIGKILL);
    }
    const int status = status_of(process);
    if (run == kills) CHECK(status == 0);
    if (status == 0 || status == 1000 + SIGKILL) {
      for (const auto& [step, loss] : losses_in(log)) wrong += expected.at(step) != loss;
    } else {
      ++wrong;
    }
  }
  std::remove(log.c_str());
  return wrong;
}

const Training kMlp = {"mlp",
                       {"alpa-mlp", "--dim", "32", "--layers", "2", "--batch", "64", "--devices",
                        "4", "--precision", "f16_mixed"},
                       400};

}  // namespace

TEST_CASE("a killed program goes on with the losses of one that never was, to the last digit") {
  CHECK(differences_of_killed_runs(kMlp, 6, 1) == 0);
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
        alpa::testing::run_program(ALPA_PROGRAMS "/alpa", {"checkpoint", "list", folder.path()});
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
  const ProgramOutput refused = alpa::testing::run_program(program, words);
  CHECK(refused.status == 2);
  CHECK(refused.text.find("alpa-mlp: --checkpoint checkpoint_test_flags: holds a run up to step 2; "
                          "give --resume to continue it, or another directory\n") !=
        std::string::npos);
  const ProgramOutput idle = alpa::testing::run_program(program, {"--resume"});
  CHECK(idle.status == 2);
  CHECK(idle.text ==
        "alpa-mlp: --resume has no effect without --checkpoint, which names the directory\n");
  std::remove("checkpoint_test_flags.csv");
}

}  // namespace checkpoint_test
