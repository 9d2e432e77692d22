// Programs that are ended while they plan, write and generate, that share a cache, or find their
// disk full or read-only: files are whole or as before, and every end is one that is meant.
//   ALPA_FUZZ_SEEDS=FIRST:COUNT test_models --source-file='*hostile_runs_test.cc'     other runs
#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/program.h"

namespace hostile_runs_test {

using namespace alpa::testing;

namespace {

namespace fs = std::filesystem;
using Random = std::mt19937_64;

struct Seeds {
  std::uint64_t first = 1, count = 3;
};

Seeds seeds_from_environment() {
  Seeds seeds;
  if (const char* given = std::getenv("ALPA_FUZZ_SEEDS"))
    REQUIRE(std::sscanf(given, "%lu:%lu", &seeds.first, &seeds.count) == 2);
  return seeds;
}

/// A folder that is gone at the end.
struct Folder {
  explicit Folder(std::string name = "hostile_runs") : path(std::move(name)) {
    fs::remove_all(path);
    fs::create_directory(path);
  }
  ~Folder() { fs::remove_all(path); }
  std::string path;
};

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::string
    kModel = " --backend cpu --devices 4 --dim 24 --layers 12 --batch 16 --steps 3 --quiet",
    kMlp = ALPA_MLP + kModel;

/// Text that a program printed and how it ended, as a shell says it: 128 and the signal.
struct Ended {
  std::string text;
  int status = 0;
};

Ended run(const std::string& command) {
  ProgramOutput output = run_shell("(" + command + "); echo \" $?\"");
  const std::size_t space = output.text.rfind(' ');
  REQUIRE(space != std::string::npos);
  return {output.text.substr(0, space), std::atoi(output.text.c_str() + space)};
}

/// The command, ended by a signal after so many seconds; by SIGKILL should that not end it.
std::string ended_by(const std::string& signal, double seconds, const std::string& command) {
  return fmt::format("timeout --preserve-status -k 60 -s {} {:.4f} {}", signal, seconds, command);
}

/// Seconds that the command takes undisturbed.
double seconds_of(const std::string& command) {
  const auto start = std::chrono::steady_clock::now();
  REQUIRE(run(command).status == 0);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double below(Random& random, double most) {
  return std::uniform_real_distribution<double>(0, most)(random);
}

int status_of(const std::string& signal) {
  return signal == "INT" ? 130 : signal == "TERM" ? 143 : 137;
}

/// No crash, no internal error, no report of a sanitizer; else what was printed.
void check_end(const Ended& ended, const std::string& signal) {
  CAPTURE(ended.text);
  const bool meant = ended.status == 0 || ended.status == status_of(signal);
  CHECK_MESSAGE(meant, ended.status);
  CHECK(ended.text.find("internal error") == std::string::npos);
  CHECK(ended.text.find("Sanitizer") == std::string::npos);
}

/// A plan file is what it was before, or a whole plan that loads.
void check_plan(const std::string& path, const std::string& before) {
  const std::string content = content_of(path);
  if (content == before) return;
  const Ended loaded = run(kMlp + " --load-plan " + path + " > /dev/null");
  CHECK_MESSAGE(loaded.status == 0, loaded.text);
}

/// The plan that the model has without a cache.
const std::string& plan_of_model() {
  static const std::string plan = [] {
    const Folder folder("hostile_runs_plan");
    const std::string path = folder.path + "/plan.json";
    REQUIRE(run(kMlp + " --plan-only --save-plan " + path).status == 0);
    return content_of(path);
  }();
  return plan;
}

/// Runs `command`, a script, where `folder` is a file system of its own of so many KiB. False if
/// this machine lets nobody mount one.
bool run_on_own_disk(const std::string& folder, int kibibytes, const std::string& command,
                     Ended& ended) {
  if (run("unshare -rm true").status != 0) return false;
  ended = run(fmt::format("unshare -rm sh -c 'mount -t tmpfs -o size={}k none {} && ({})'",
                          kibibytes, folder, command));
  return true;
}

}  // namespace

TEST_CASE("a signal leaves files as they were, or whole") {
  const Seeds seeds = seeds_from_environment();
  const Folder folder;
  const std::string plan = folder.path + "/plan.json", report = folder.path + "/report.json",
                    save = kMlp + " --save-plan " + plan + " --json " + report,
                    train = save + " --log " + folder.path + "/log.csv --trace " + folder.path +
                            "/trace.json",
                    only_plan = save + " --plan-only";
  const double train_seconds = seconds_of(train), plan_seconds = seconds_of(only_plan);
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    INFO("again with ALPA_FUZZ_SEEDS=" << seed << ":1");
    Random random(seed);
    const std::string signal = seed % 3 == 0 ? "INT" : seed % 3 == 1 ? "TERM" : "KILL";
    std::ofstream(plan) << plan_of_model();
    fs::remove(report);
    // Anywhere in a run, or near the end of planning, when files are written.
    const bool anywhere = below(random, 1) < 0.3;
    const double seconds =
        anywhere ? below(random, 1.1 * train_seconds) : (0.6 + below(random, 0.5)) * plan_seconds;
    check_end(run(ended_by(signal, seconds, anywhere ? train : only_plan)), signal);
    check_plan(plan, plan_of_model());
    if (fs::exists(report)) CHECK(nlohmann::json::accept(content_of(report)));
  }
}

TEST_CASE("a signal ends generation") {
  const Seeds seeds = seeds_from_environment();
  const std::string command = ALPA_GPT
      " --backend cpu --devices 2 --method data --sequence 16 --batch 4 --steps 1 --quiet "
      "--generate 12";
  const double seconds = seconds_of(command);
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    INFO("again with ALPA_FUZZ_SEEDS=" << seed << ":1");
    Random random(seed);
    const std::string signal = seed % 2 == 0 ? "INT" : "TERM";
    check_end(run(ended_by(signal, below(random, 1.1 * seconds), command)), signal);
  }
}

TEST_CASE("a cache survives programs that are killed, and serves two at once") {
  const Seeds seeds = seeds_from_environment();
  const Folder folder;
  const std::string cache = folder.path + "/cache",
                    command = kMlp + " --plan-only --plan-cache " + cache + " --save-plan ";
  const double seconds = seconds_of(command + folder.path + "/first.json");
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    INFO("again with ALPA_FUZZ_SEEDS=" << seed << ":1");
    Random random(seed);
    if (seed % 2 == 0) fs::remove_all(cache);
    const std::string killed =
                          ended_by("KILL", below(random, 1.1 * seconds), command + "/dev/null"),
                      a = folder.path + "/a.json", b = folder.path + "/b.json";
    const Ended both =
        run(fmt::format("{} & {}{} & p=$!; {}{} && wait $p", killed, command, a, command, b));
    CAPTURE(both.text);
    CHECK(both.status == 0);
    CHECK(both.text.find("plan cache") == std::string::npos);
    for (const std::string& path : {a, b}) CHECK(content_of(path) == plan_of_model());
  }
}

TEST_CASE("a full disk is told of in a line, and files are as before, or whole") {
  const Seeds seeds = seeds_from_environment();
  const Folder folder;
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    INFO("again with ALPA_FUZZ_SEEDS=" << seed << ":1");
    Random random(seed);
    const char* const flags[] = {"--save-plan", "--json", "--trace",     "--plot",
                                 "--log",       "--dump", "--plan-cache"};
    std::string command = kMlp;
    for (const char* flag : flags)
      if (below(random, 1) < 0.5)
        command += fmt::format(" {} {}/{}.json", flag, folder.path, flag + 2);
    Ended ended;
    const std::string after = fmt::format(
        "; status=$?; ls {0} | grep -c tmp; test ! -e {0}/save-plan.json || {1} --load-plan "
        "{0}/save-plan.json || echo damaged; exit $status",
        folder.path, kMlp);
    if (!run_on_own_disk(folder.path, 4 + static_cast<int>(below(random, 200)), command + after,
                         ended)) {
      MESSAGE("not run: this machine lets nobody mount a file system of its own");
      return;
    }
    CAPTURE(command);
    CAPTURE(ended.text);
    CHECK((ended.status == 0 || ended.status == 2));
    if (ended.status == 2) CHECK(ended.text.find("No space left on device\n") != std::string::npos);
    CHECK(ended.text.find("damaged") == std::string::npos);
    CHECK(ended.text.find("\n0\n") != std::string::npos);  // no temporary file is left
    CHECK(ended.text.find("Sanitizer") == std::string::npos);
  }
}

TEST_CASE("a folder that is read-only is told of, and no reason not to plan") {
  const Folder folder;
  const std::string read_only = "mount -o remount,ro " + folder.path + "; ";
  Ended ended;
  if (!run_on_own_disk(folder.path, 400,
                       read_only + kMlp + " --plan-only --plan-cache " + folder.path, ended)) {
    MESSAGE("not run: this machine lets nobody mount a file system of its own");
    return;
  }
  CAPTURE(ended.text);
  CHECK(ended.status == 0);
  CHECK(ended.text.find("alpa: plan cache: hostile_runs/") != std::string::npos);
  CHECK(ended.text.find("cannot be written: Read-only file system; this plan is not kept\n") !=
        std::string::npos);
  for (const char* flag : {"--save-plan", "--json", "--trace", "--plot", "--log"}) {
    run_on_own_disk(folder.path, 400,
                    read_only + kMlp + fmt::format(" {} {}/x > /dev/null", flag, folder.path),
                    ended);
    CHECK(ended.status == 2);
    CHECK(ended.text ==
          fmt::format("alpa-mlp: {}: hostile_runs/x: cannot be written: Read-only file system\n",
                      flag));
  }
}

}  // namespace hostile_runs_test
