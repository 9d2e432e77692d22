// tools/launch.cc — alpa launch [--restarts N] -- COMMAND…: starts a launcher again when a process
// was lost
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "alpa/base/error.h"
#include "src/processes/launcher.h"
#include "src/processes/protocol.h"
#include "tools/commands.h"
#include "tools/common/flag_table.h"
#include "tools/launched.h"
#include "tools/supervised.h"

namespace {

using launch::Command;
using launch::Ending;

struct LaunchFlags {
  int restarts = 3, least = 1;
  bool shrink = false;
};

/// Success, a mistake (2), a bug (3), a command that is not there (126, 127), or an end that
/// somebody asked for (SIGINT, SIGTERM): another try would not end otherwise.
bool is_final(const Ending& ending) {
  constexpr int kFinal[] = {0, 2, 3, 126, 127, 130, 143};
  return ending.passed_on != 0 ||
         std::find(std::begin(kFinal), std::end(kFinal), ending.status) != std::end(kFinal);
}

bool is_lost_process(const Ending& ending) {
  return ending.status == alpa::processes::kTryAgain || ending.status > 128;
}

/// What fails sooner has not run yet.
constexpr double kRunSeconds = 10;

/// What happened, in words.
std::string reason_of(const Ending& ending, const Command& command) {
  if (ending.status == alpa::processes::kTryAgain) return "a process was lost (status 75)";
  if (ending.status > 128)
    if (const char* const name = sigabbrev_np(ending.status - 128))
      return fmt::format("{} was ended by SIG{} (status {})", command.words[0], name,
                         ending.status);
  return fmt::format("{} failed (status {})", command.words[0], ending.status);
}

void say(const std::string& text) { fmt::print(stderr, "alpa launch: {}\n", text); }

/// Processes of the next try.
int next_processes(const LaunchFlags& flags, const launch::Hosts& hosts, int processes) {
  if (hosts.left < hosts.all)
    return static_cast<int>(static_cast<std::int64_t>(processes) * hosts.left / hosts.all);
  return flags.shrink ? processes - 1 : processes;
}

int run_launch(const LaunchFlags& flags, Command command) {
  int processes = command.processes;
  for (int restart = 1;; ++restart) {
    const Ending ending = launch::run_supervised(launch::words_for(command, processes));
    if (is_final(ending)) return ending.status;
    std::string text = reason_of(ending, command);
    if (restart > flags.restarts) {
      say(text + fmt::format("; no restart is left of {}", flags.restarts));
      return ending.status;
    }
    const launch::Hosts hosts = launch::leave_out_lost_hosts(command);
    // The launcher itself failed, which is a mistake if nothing has run or is lost yet.
    if (!is_lost_process(ending) && hosts.left == hosts.all && ending.seconds < kRunSeconds &&
        !(flags.shrink && restart > 1))
      return ending.status;
    if (!hosts.text.empty()) text += "; " + hosts.text;
    if (processes > 0) processes = next_processes(flags, hosts, processes);
    if (command.processes > 0 && processes < flags.least) {
      say(text + fmt::format("; {} processes are left, and --least is {}", processes, flags.least));
      return ending.status;
    }
    text += fmt::format("; restart {} of {}", restart, flags.restarts);
    if (processes > 0)
      text += fmt::format(" with {} process{}", processes, processes == 1 ? "" : "es");
    say(text);
  }
}

}  // namespace

int launch_command(int argc, char** argv) {
  const auto own = static_cast<int>(
      std::find_if(argv, argv + argc, [](const char* word) { return !std::strcmp(word, "--"); }) -
      argv);
  LaunchFlags flags;
  if (cli::parse(own, argv,
                 "Starts a command behind --, such as mpirun or srun. Starts it again, with the "
                 "hosts that are left, when a process or the launcher was lost: exit status 75, a "
                 "signal, or a status of the launcher's own. 0, 2 and 3 are passed on.",
                 {cli::whole("--restarts", &flags.restarts, "how often at most", 0, 1'000'000),
                  cli::whole("--least", &flags.least, "fewest processes to go on with", 1),
                  cli::on("--shrink", &flags.shrink, "one process fewer at each restart")}))
    return 0;
  const alpa::processes::Launcher by = alpa::processes::launcher();
  alpa::require(!by.launched() || by.size == 1,
                "alpa launch was started by {} itself; start it once: alpa launch -- {} …", by.name,
                by.name == "srun" ? "srun --mpi=pmix" : "mpirun");
  alpa::require(
      own + 1 < argc,
      "nothing to start; write it behind --: alpa launch -- mpirun -n 8 ./train --resume");
  const Command command = launch::command_of({argv + own + 1, argv + argc});
  const bool counted = command.processes > 0;
  alpa::require(counted || (!flags.shrink && flags.least == 1),
                "{} needs a command that says how many processes: mpirun -n 8, srun --ntasks 8",
                flags.shrink ? "--shrink" : "--least");
  alpa::require(!counted || command.processes >= flags.least,
                "--least is {}, but the command starts {} processes", flags.least,
                command.processes);
  return run_launch(flags, command);
}
