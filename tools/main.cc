// tools/main.cc — alpa <subcommand> …: the command line of the planner; one row of
// `kCommands` per subcommand
#include <dlfcn.h>
#include <fmt/core.h>

#include <cstdio>
#include <string_view>

#include "alpa/base/error.h"
#include "alpa/base/program.h"
#include "alpa/base/text.h"
#include "alpa/version.h"
#include "models/common/train.h"
#include "tools/commands.h"
#include "tools/common/flag_table.h"

namespace {

/// A subcommand: `run` sees the arguments after its name, with argv[0] the name itself,
/// and returns the exit status.
struct Command {
  std::string_view name;
  std::string_view arguments;
  std::string_view purpose;
  int (*run)(int argc, char** argv);
};

int version_command(int argc, char** argv) {
  if (cli::parse(argc, argv, "Prints the version.", {})) return 0;
  fmt::print("alpa {}\n", alpa::version());
  return 0;
}

constexpr Command kCommands[] = {
    {"check", "RUN --cluster NAME|FILE",
     "say whether a run of another framework fits a cluster, and how far it is from the best",
     check_command},
    {"checkpoint", "list|verify|diff|export FOLDER",
     "list the checkpoints of a run, check, compare or export them", checkpoint_command},
    {"diff", "PLAN PLAN", "say what two plans do differently, in seconds and bytes", diff_command},
    {"doctor", "[--json] [--seconds S]",
     "say what this machine offers, how fast it is, and what is missing", doctor_command},
    {"evaluate", "FOLDER --data FILE", "say how well a decoder's folder predicts a text",
     programs::evaluate_command},
    {"explain", "PLAN|MODEL [--full]",
     "say where time and memory of a plan go, what is split how, and what the next best costs",
     explain_command},
    {"launch", "[--restarts N] -- COMMAND",
     "start mpirun or srun, and again when a process was lost", launch_command},
    {"plan", "MODEL [SIZE] --cluster NAME|FILE",
     "plan a model for any cluster, and compare the plan with those of other methods",
     plan_command},
    {"profile", "[--devices N] [--output FILE]", "measure machines into a cluster file",
     profile_command},
    {"report", "PLAN|MODEL --output PAGE",
     "write a plan as one HTML page: where seconds and bytes go, and when each stage runs",
     report_command},
    {"solve", "FILE SECONDS", "solve an instance of the contest format within a time limit",
     solve_command},
    {"train", "MODEL [SIZE] …",
     "train a model on devices of this machine or of a launch; `alpa train gpt` is `alpa-gpt`",
     programs::train_command},
    {"verify", "PLAN [--model GRAPH]",
     "check a plan file: statically, then one step beside one device", verify_command},
    {"version", "", "print the version", version_command},
    {"what-if", "PLAN|MODEL --set OP=SPEC|--mesh M|…",
     "say what the best plan takes with another layout, mesh, memory budget or link",
     what_if_command},
};

/// Loads a library whose static objects define operators of a program (alpa/ops/custom.h).
void load_operators(const char* path) {
  if (dlopen(path, RTLD_NOW | RTLD_GLOBAL)) return;
  alpa::fail(
      "--operators: {}; give the path of a shared library that calls define_op in static objects, "
      "linked without libalpa",
      dlerror());
}

void print_usage(std::FILE* out) {
  fmt::print(out, "usage: alpa COMMAND [ARGUMENTS]\n\n");
  for (const Command& command : kCommands)
    fmt::print(out, "  alpa {:<41} {}\n", fmt::format("{} {}", command.name, command.arguments),
               command.purpose);
  fmt::print(out,
             "\n`alpa --operators LIBRARY COMMAND …` knows the operators that a program defines, "
             "for plans that have them.");
  fmt::print(out, "\n`alpa --version` prints the version, `alpa --help` this text.\n{}\n",
             cli::kExitStatus);
}

int run(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == "--version") return version_command(argc - 1, argv + 1);
  if (name == "--help" || name == "-h") return print_usage(stdout), 0;
  if (name == "--operators") {
    alpa::require(argc > 2, "--operators needs the path of a library");
    load_operators(argv[2]);
    return run(argc - 2, argv + 2);
  }
  for (const Command& command : kCommands)
    if (command.name == name) return command.run(argc - 1, argv + 1);
  alpa::require(argc < 2, "'{}' is not a command; `alpa --help` lists them", alpa::excerpt(name));
  print_usage(stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) { return alpa::run_program("alpa", run, argc, argv); }
