// models/common/flag_checks.cc — refuses flags that have no effect beside others
#include "models/common/flags.h"
#include "tools/common/processes.h"

namespace programs {

using namespace alpa;

namespace {

/// Of --plan-only, which runs nothing.
void check_plan_only(const Flags& flags) {
  if (!flags.plan_only) return;
  for (const char* flag :
       {"--compare", "--load-plan", "--log", "--tensorboard", "--plot", "--save", "--generate",
        "--logits", "--checkpoint", "--save-adapter", "--save-folder"})
    require(flags.given.count(flag) == 0, "--plan-only runs nothing: it can't be combined with {}",
            flag);
}

}  // namespace

void check_combinations(const Flags& flags) {
  check_plan_only(flags);
  const auto check = [&](const char* flag, bool idle, const std::string& why) {
    cli::require_effect(flags.given, flag, idle, why);
  };
  check("--devices", !flags.cluster.empty(), "beside --cluster, whose devices count");
  // --demo compares all methods, that of stages too.
  const bool stages = flags.method == "pipeline" || flags.given.count("--demo") > 0;
  for (const char* flag : {"--stages", "--pipeline-layers", "--schedule", "--timeline"})
    check(flag, !stages, fmt::format("with --method {}; it is for pipeline", flags.method));
  check("--mesh", flags.method == "serial", "with --method serial, which uses one device");
  for (const char* flag : {"--plan-cache", "--progress", "--solver-seconds"})
    check(flag, !flags.load_plan.empty(), "beside --load-plan, which takes a plan as it is");
  for (const char* flag : {"--checkpoint-every", "--keep", "--resume"})
    check(flag, flags.checkpoint.empty(), "without --checkpoint, which names the directory");
  check("--trace", !flags.plan_only && flags.steps == 0 && flags.given.count("--epochs") == 0,
        "with --steps 0: it is of the last step");
}

bool read_flags(int argc, const char* const* argv, const std::string& purpose,
                const std::vector<cli::Flag>& rows, Flags& flags) {
  std::string values = purpose + "\n";
  if (cli::parse(argc, argv, purpose, rows, &flags.given, &values)) return true;
  check_combinations(flags);
  cli::require_equal_in_all("the command line", values);
  return false;
}

}  // namespace programs
