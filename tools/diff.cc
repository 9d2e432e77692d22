// tools/diff.cc — alpa diff PLAN PLAN: what two plans do differently
#include <algorithm>

#include <alpa/alpa.h>

#include <nlohmann/json.hpp>

#include "src/base/file.h"
#include "src/report/plan_difference.h"
#include "src/report/report_json.h"
#include "tools/commands.h"
#include "tools/plan_or_model.h"

using namespace alpa;
using namespace tools;

namespace {

struct DiffFlags {
  PlanOrModelFlags before, after;
};

std::vector<cli::Flag> rows_of(DiffFlags& f) {
  using namespace cli;
  return joined({{text("BEFORE", &f.before.file, "a plan, as --save-plan writes it"),
                  text("AFTER", &f.after.file, "another one")},
                 in_group("Devices", {text("--cluster", &f.before.cluster,
                                           "cluster whose devices count: a file, or a name such as "
                                           "dgx-a100; by default CPU devices of this machine")})});
}

}  // namespace

int diff_command(int argc, char** argv) {
  DiffFlags flags;
  if (cli::parse(argc, argv,
                 "Says what two plans do differently, and what that changes in seconds and bytes.",
                 rows_of(flags), &flags.before.given))
    return 0;
  flags.after.cluster = flags.before.cluster;
  const CompiledStep before = read_plan(flags.before), after = read_plan(flags.after);
  const Cluster cluster =
      cluster_of_plan(flags.before, std::max(devices_of(before.plan), devices_of(after.plan)));
  fmt::print("{}", difference_text(plan_numbers(before.plan, cluster, before.memory_bytes),
                                   plan_numbers(after.plan, cluster, after.memory_bytes)));
  return 0;
}
