#pragma once
/// Runs of programs that are killed at random instants and started again.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace alpa::testing {

/// A program and its flags, without those of checkpoints.
struct Training {
  const char* name;
  std::vector<std::string> words;
  int steps;
};

inline std::vector<std::string> words_of(const Training& training, const std::string& log,
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
inline std::map<int, std::string> losses_in(const std::string& log) {
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

inline pid_t start(const std::vector<std::string>& words) {
  return start_program(words, [] {});
}

/// The status of a process: of its exit, or 1000 + the signal that ended it.
inline int status_of(pid_t process) {
  int status = 0;
  waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/// Runs until the end, killed after random times, `kills` times at most. Returns how often the
/// losses of a run, killed or not, differ from the expected ones.
inline int differences_of_killed_runs(const Training& training, int kills, unsigned seed) {
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

}  // namespace alpa::testing
