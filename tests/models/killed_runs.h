#pragma once
/// Runs of programs that are killed at random instants and started again.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
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

/// The step of the newest checkpoint, by the folder's name alone; 0: there is none.
inline int newest_in(const std::string& folder) {
  int newest = 0, step = 0;
  std::error_code failure;
  for (std::filesystem::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure))
    if (std::sscanf(at->path().filename().c_str(), "step-%d", &step) == 1)
      newest = std::max(newest, step);
  return newest;
}

/// What became of a program that was killed and started again.
struct KilledRuns {
  int kills = 0;
  int in_training = 0;  ///< of these: after the loss of a step was written
  int resumed = 0;      ///< runs that began behind a checkpoint and wrote a loss
  int wrong = 0;        ///< losses that differ from the expected, lost checkpoints, ends not meant
};

/// Kills the program so often, at random instants from its start to some time in its training, and
/// lets a last run end. A run that ends before its kill is followed by one from the beginning.
inline KilledRuns killed_runs(const Training& training, int kills, unsigned seed) {
  using Clock = std::chrono::steady_clock;
  const TemporaryFolder folder(std::string("checkpoint_test_") + training.name),
      logs(folder.path() + "-logs");  // killed programs leave temporary files beside the log
  std::filesystem::create_directory(logs.path());
  const std::string log = logs.path() + "/log.csv";
  const Clock::time_point begin = Clock::now();
  const pid_t whole = start(words_of(training, log, ""));
  while (losses_in(log).empty() && Clock::now() - begin < std::chrono::minutes(5))
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const double until_training = std::chrono::duration<double>(Clock::now() - begin).count();
  REQUIRE(status_of(whole) == 0);
  const std::map<int, std::string> expected = losses_in(log);
  REQUIRE(std::ssize(expected) == training.steps);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> instants(0, until_training + 0.3);
  KilledRuns runs;
  for (bool last = false; !last;) {
    last = runs.kills == kills;
    std::remove(log.c_str());
    const int newest = newest_in(folder.path());
    const pid_t process = start(words_of(training, log, folder.path()));
    if (!last) {
      std::this_thread::sleep_for(std::chrono::duration<double>(instants(random)));
      kill(process, SIGKILL);
    }
    const int status = status_of(process);
    const std::map<int, std::string> losses = losses_in(log);
    for (const auto& [step, loss] : losses) runs.wrong += expected.at(step) != loss;
    if (!losses.empty()) runs.wrong += losses.begin()->first != newest + 1;
    runs.resumed += !losses.empty() && newest > 0;
    runs.wrong += newest_in(folder.path()) < newest;
    if (status == 1000 + SIGKILL) {
      ++runs.kills;
      runs.in_training += !losses.empty();
    } else {
      runs.wrong += status != 0;
      if (!last) folder.clear();
    }
  }
  return runs;
}

}  // namespace alpa::testing
