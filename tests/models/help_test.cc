// The help of alpa-mlp, and exit statuses of the programs.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "support/program.h"

namespace help_test {

using namespace alpa::testing;

namespace {

/// The flags under each heading of a help text.
std::map<std::string, std::vector<std::string>> flags_by_heading(const std::string& help) {
  std::map<std::string, std::vector<std::string>> flags;
  std::istringstream lines(help);
  std::string heading;
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with(":") && !line.starts_with(" ")) heading = line.substr(0, line.size() - 1);
    if (line.starts_with("  --"))
      flags[heading].push_back(line.substr(2, line.find_first_of(" =[", 2) - 2));
  }
  return flags;
}

using Flags = std::vector<std::string>;

}  // namespace

TEST_CASE("alpa-mlp --help groups the flags by what they are about") {
  const ProgramOutput help = run_program(ALPA_MLP, {"--help"});
  CHECK(help.status == 0);
  auto flags = flags_by_heading(help.text);
  CAPTURE(help.text);
  CHECK(flags.size() == 5);
  CHECK(flags["Model"] == Flags{"--dim", "--hidden-factor", "--layers", "--optimizer",
                                "--learning-rate", "--warmup", "--precision", "--remat"});
  CHECK(flags["Data"] == Flags{"--data", "--epochs", "--batch", "--steps", "--seed"});
  CHECK(flags["Devices"] == Flags{"--devices", "--backend", "--cluster", "--memory-budget",
                                  "--reproducible", "--tf32", "--stall-seconds", "--join-timeout",
                                  "--check-replicas"});
  CHECK(flags["Plan"] == Flags{"--method", "--mesh", "--micro-batches", "--stages",
                               "--pipeline-layers", "--schedule", "--solver-seconds", "--plan-only",
                               "--plan-cache", "--load-plan", "--save-plan"});
  CHECK(flags["Output"] == Flags{"--demo", "--explain", "--timeline", "--trace", "--report",
                                 "--progress", "--compare", "--quiet", "--log", "--tensorboard",
                                 "--checkpoint", "--checkpoint-every", "--keep", "--resume",
                                 "--plot", "--json", "--dump"});
  CHECK(help.text.find(
            "\nExit status: 0 done, 2 a mistake in what was given or a refusal of the system, "
            "3 an internal error, 75 a process of the launch was lost: try again.\n") !=
        help.text.npos);
}

TEST_CASE("--explain prints ten lines at most, --explain=full the listing behind them") {
  const std::vector<std::string> small = {"--plan-only", "--backend", "cpu", "--devices",
                                          "4",           "--dim",     "16",  "--batch",
                                          "32",          "--layers",  "6"};
  const auto with = [&](const std::string& flag) {
    std::vector<std::string> words = small;
    words.push_back(flag);
    const std::string text = run_program(ALPA_MLP, words).text;
    const std::size_t begin = text.find("\nPlan           shard on mesh ");
    CAPTURE(text);
    REQUIRE(begin != text.npos);
    return text.substr(begin + 1);
  };
  const std::string summary = with("--explain");
  CHECK(std::count(summary.begin(), summary.end(), '\n') <= 10);
  const std::string full = with("--explain=full");
  CHECK(full.starts_with(summary + "\nState, a line per layout\n"));
  CHECK(full.find("\nLargest communications (") != full.npos);
  const ProgramOutput mistake = run_program(ALPA_MLP, {"--explain=all"});
  CHECK(mistake.status == 2);
  CHECK(mistake.text == "alpa-mlp: --explain is 'all'; it must be summary or full\n");
}

TEST_CASE("every program ends with the library's exit statuses") {
  int programs = 0;
  for (const char* folder : {"/tools", "/models"})
    for (const auto& entry :
         std::filesystem::directory_iterator(std::string(ALPA_SOURCE_DIR) + folder)) {
      if (entry.path().extension() != ".cc") continue;
      std::stringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      const std::size_t main = text.str().find("\nint main(");
      if (main == std::string::npos) continue;
      ++programs;
      CAPTURE(entry.path().string());
      CHECK(text.str().find("run_program(\"", main) != std::string::npos);
    }
  CHECK(programs >= 2);
}

}  // namespace help_test
