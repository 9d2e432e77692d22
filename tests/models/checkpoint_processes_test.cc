// Runs of several processes under mpirun that save themselves: another number of them goes on with
// the losses of one that was never broken off, and a signal to one process ends all.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "models/killed_runs.h"
#include "support/golden.h"
#include "support/mpirun.h"

namespace checkpoint_processes_test {

using namespace alpa::testing;
namespace fs = std::filesystem;

namespace {

Training mlp(int steps) {
  return {"mlp_processes",
          {"alpa-mlp", "--dim", "32", "--layers", "2", "--batch", "64", "--devices", "8",
           "--method", "zero3"},
          steps};
}

/// Adapters of a folder's model, with the state of their optimizer.
Training lora(int steps) {
  return {"lora_processes",
          {"alpa-gpt",
           "--load",
           golden_path("pretrained/llama"),
           "--data",
           ALPA_SOURCE_DIR "/README.md",
           "--sequence",
           "16",
           "--batch",
           "8",
           "--lora",
           "4",
           "--lora-targets",
           "*.attention.*,*.down",
           "--dropout",
           "0.1",
           "--devices",
           "8",
           "--method",
           "zero3",
           "--backend",
           "cpu"},
          steps};
}

/// The program and its flags, for mpirun.
ProgramOutput train(int processes, const Training& training, const std::string& log,
                    const std::string& folder) {
  std::vector<std::string> words = words_of(training, log, folder);
  const std::string program = words.front();
  words.erase(words.begin());
  return processes == 1 ? run_program(program, words) : run_under_mpirun(processes, program, words);
}

/// Processes that run alpa-mlp with `word` among their words, but no shell and no launcher.
std::vector<pid_t> processes_with(const std::string& word) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    std::ifstream file(entry.path() / "cmdline", std::ios::binary);
    const std::string line(std::istreambuf_iterator<char>(file), {});
    const std::string program = line.substr(0, line.find('\0'));
    if (program.ends_with("/alpa-mlp") && line.find(word) != line.npos)
      found.push_back(std::stoi(name));
  }
  return found;
}

bool wait_for_losses(const std::string& log, std::size_t count) {
  for (int i = 0; i < 600 && losses_in(log).size() < count; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return losses_in(log).size() >= count;
}

/// Whether all of them end soon: the launcher does not wait for those that it has told to.
bool are_gone(const std::vector<pid_t>& processes) {
  const auto gone = [](pid_t process) { return kill(process, 0) != 0; };
  for (int i = 0; i < 100 && !std::all_of(processes.begin(), processes.end(), gone); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return std::all_of(processes.begin(), processes.end(), gone);
}

/// The steps in a folder that verify, newest last, as `alpa checkpoint` sees them.
std::vector<std::int64_t> whole_steps(const std::string& folder) {
  std::vector<std::int64_t> steps;
  for (const auto& entry : fs::directory_iterator(folder))
    if (const std::string name = entry.path().filename().string(); name.starts_with("step-"))
      steps.push_back(std::stoll(name.substr(5)));
  std::sort(steps.begin(), steps.end());
  const ProgramOutput output = run_program(ALPA_PROGRAMS "/alpa", {"checkpoint", "verify", folder});
  CHECK_MESSAGE(output.status == 0, output.text);
  return steps;
}

}  // namespace

TEST_CASE("4 processes save, 2 go on with the losses of one that was never broken off") {
  if (const std::string why = no_mpirun(); !why.empty()) {
    MESSAGE("skipped: " << why);
    return;
  }
  const TemporaryFolder folder("checkpoint_processes_test_run");
  const std::string log = "checkpoint_processes_test_run.csv";
  REQUIRE(train(1, mlp(30), log, "").status == 0);
  const auto expected = losses_in(log);
  ProgramOutput output = train(4, mlp(14), log, folder.path());
  CHECK_MESSAGE(output.status == 0, output.text);
  CHECK(whole_steps(folder.path()) == std::vector<std::int64_t>{9, 12, 14});
  CHECK(fs::exists(folder.path() + "/step-00000014/shard-3-of-4.safetensors"));
  output = train(2, mlp(30), log, folder.path());
  CHECK_MESSAGE(output.status == 0, output.text);
  const std::string line = "resumed from " + folder.path() + "/step-00000014\n";
  CHECK(output.text.find(line) != output.text.npos);
  CHECK(output.text.find(line, output.text.find(line) + 1) == output.text.npos);  // once
  const auto losses = losses_in(log);
  CHECK(losses.size() == 16);
  for (const auto& [step, loss] : losses) CHECK(loss == expected.at(step));
  std::remove(log.c_str());
}

TEST_CASE("adapters train in 2 processes on 8 devices, and go on, with the losses of one process") {
  if (const std::string why = no_mpirun(); !why.empty()) {
    MESSAGE("skipped: " << why);
    return;
  }
  const TemporaryFolder folder("checkpoint_processes_test_lora");
  const std::string log = "checkpoint_processes_test_lora.csv";
  REQUIRE(train(1, lora(12), log, "").status == 0);
  const auto expected = losses_in(log);
  CHECK(expected.size() == 12);
  CHECK(expected.at(1) != expected.at(12));
  for (const int steps : {5, 12}) {  // the second goes on from the checkpoint behind the first
    const ProgramOutput output = train(2, lora(steps), log, folder.path());
    CHECK_MESSAGE(output.status == 0, output.text);
    const auto losses = losses_in(log);
    CHECK(losses.size() == (steps == 5 ? 5 : 7));
    for (const auto& [step, loss] : losses) CHECK(loss == expected.at(step));
  }
  CHECK(fs::exists(folder.path() + "/step-00000012/shard-1-of-2.safetensors"));
  std::remove(log.c_str());
}

TEST_CASE("a signal to one process saves once more and ends all, with 143 or 130") {
  if (const std::string why = no_mpirun(); !why.empty()) {
    MESSAGE("skipped: " << why);
    return;
  }
  for (const int signal : {SIGTERM, SIGINT}) {
    const TemporaryFolder folder("checkpoint_processes_test_signal");
    const std::string log = "checkpoint_processes_test_signal.csv";
    std::remove(log.c_str());
    std::vector<std::string> words = words_of(mlp(1'000'000), log, folder.path());
    const std::string program = words.front();
    words.erase(words.begin());
    const pid_t launcher =
        start_program({"/bin/sh", "-c", mpirun_command(3, program, words)}, [] {});
    REQUIRE(wait_for_losses(log, 20));
    const std::vector<pid_t> running = processes_with(folder.path());
    REQUIRE(running.size() == 3);
    kill(running.back(), signal);
    CHECK(status_of(launcher) == 128 + signal);
    CHECK(are_gone(running));
    const std::int64_t last = losses_in(log).rbegin()->first;
    const std::int64_t saved = whole_steps(folder.path()).back();
    CHECK((saved == last || saved == last + 1));  // the last loss may not have been written
    std::remove(log.c_str());
  }
}

}  // namespace checkpoint_processes_test
