// tools/plan.cc — alpa plan MODEL [SIZE] --cluster FILE|NAME: plans for any cluster, and compares
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/common/imported.h"
#include "models/common/interrupt.h"
#include "models/common/model.h"
#include "src/base/file.h"
#include "src/search/space/auto_shard_options.h"
#include "tools/commands.h"
#include "tools/frameworks.h"
#include "tools/plan_front.h"

using namespace alpa;
using namespace plan;

namespace {

/// The rows of all models that have an effect on a plan.
std::vector<cli::Flag> common_rows(PlanFlags& flags) {
  const std::set<std::string> names = {
      "--optimizer", "--precision",  "--remat",   "--batch",         "--memory-budget",
      "--method",    "--mesh",       "--stages",  "--micro-batches", "--pipeline-layers",
      "--schedule",  "--plan-cache", "--progress"};
  std::vector<cli::Flag> rows;
  for (cli::Flag& row : programs::rows_of(flags))
    if (names.contains(row.name)) rows.push_back(std::move(row));
  return rows;
}

/// An extent whose default is that of the published model.
cli::Flag extent(const char* name, std::int64_t* target, const char* meaning, std::int64_t least,
                 std::int64_t most = cli::kMaxCount) {
  cli::Flag row = cli::whole(name, target, meaning, least, most);
  row.initial.clear();
  return row;
}

std::vector<cli::Flag> rows_of(PlanFlags& f, RunFlags& run) {
  using namespace cli;
  return joined(
      {{text("MODEL", &f.name,
             fmt::format("one of {}; or a graph file, as --dump writes it (01_graph.txt); or a "
                         "function of JAX, as StableHLO text",
                         fmt::join(programs::planned_models(), ", "))),
        optional_argument("SIZE", &f.model, "of the model, such as 2.6B")},
       in_group("Model", {extent("--sequence", &f.sequence, "tokens of an example", 1),
                          extent("--vocabulary", &f.vocabulary, "different tokens", 2),
                          extent("--image", &f.image, "rows and columns of an image", 1, 4096)}),
       programs::rows_of_import(f),
       in_group("Devices", joined({{text("--cluster", &f.cluster,
                                         fmt::format("a cluster file, or one of {}",
                                                     fmt::join(Cluster::names(), ", ")))},
                                   rows_of_hosts(run)})),
       common_rows(f),
       rows_of_run(run),
       in_group(
           "Plan",
           {positive_number("--time-limit", &f.solver_seconds,
                            "seconds for the plan, and for each method compared"),
            text("--compare", &f.methods,
                 "methods to plan, too: data,zero2,zero3,intra-zero2,pp-dp,"
                 "megatron,inter-only,intra-only"),
            text("--for", &f.framework,
                 fmt::format("the best plan that this framework can run, and its command "
                             "line or file, too: {}",
                             fmt::join(framework_names(), ", "))),
            text("--given", &f.given_plan, "price the stages of this file, or a saved plan, too")}),
       in_group("Output", {output_file("--save", &f.save, "write the plan to this file"),
                           on("--counts", &f.counts,
                              "print the kernels of a step on the first device, too: launches, "
                              "bytes and FLOPs by kind"),
                           on("--json", &f.as_json, "print everything as JSON")})});
}

/// "gpt 175B does not fit 128 hosts of 8 (dgx-a100), although its state, …, leaves …", if that is
/// proven; else what was not found, and in which time.
std::string refusal_text(const Subject& subject, intra_op::NoPlan why) {
  const std::string cluster = cluster_text(subject.flags, subject.cluster);
  const double state = state_bytes(subject.model);
  const double room = device_bytes(subject.flags, subject.cluster) * subject.cluster.num_devices();
  if (why == intra_op::NoPlan::out_of_time)
    return fmt::format("no plan of {} for {} was found within {} s; allow more by --time-limit",
                       subject.model.name, cluster, subject.flags.solver_seconds);
  const std::string words =
      why == intra_op::NoPlan::proven
          ? fmt::format("{} does not fit {}", subject.model.name, cluster)
          : fmt::format("no plan of {} that fits {} was found", subject.model.name, cluster);
  return fmt::format("{}, although its state, {}, leaves {}", words, size_text(state),
                     size_text(room - state));
}

/// The plan that is asked for.
MethodResult planned(const Subject& subject, const Stoppable& stoppable) {
  try {
    MethodResult result{.method = subject.flags.method};
    result.planned = plan_only(subject.model.step,
                               stoppable(method_of(subject.flags, subject.model)), subject.cluster);
    result.planning_seconds = result.planned->seconds;
    return result;
  } catch (const intra_op::OverBudget& error) {
    fail("{}: {}", refusal_text(subject, error.why), error.what());
  }
}

void check_flags(const PlanFlags& flags) {
  if (!flags.framework.empty()) find_framework(flags.framework);
  require(!flags.cluster.empty(), "--cluster is missing; give a cluster file, or one of {}",
          fmt::join(Cluster::names(), ", "));
  for (const char* flag : {"--stages", "--pipeline-layers", "--schedule"})
    cli::require_effect(flags.given, flag, flags.method != "pipeline",
                        fmt::format("with --method {}; it is for pipeline", flags.method));
  cli::require_effect(flags.given, "--mesh", flags.method == "serial",
                      "with --method serial, which uses one device");
}

int run_plan(const PlanFlags& flags, const RunFlags& run) {
  const programs::PlanningInterrupt interrupt(true);
  const Stoppable stoppable = [&](Method method) { return interrupt.ending(std::move(method)); };
  if (asks_front(flags, run)) {
    print_front(flags, run, stoppable);
    return interrupt.came() ? programs::kInterruptedStatus : 0;
  }
  const std::vector<std::string> methods = parse_methods(flags.methods);
  const Cluster cluster = cluster_of(flags);
  const PlannedModel model = model_of(flags);
  require_room_for_state(flags, model, cluster);
  const Subject subject{flags, model, cluster};
  const Framework* const framework =
      flags.framework.empty() ? nullptr : &find_framework(flags.framework);
  if (framework && framework->check) framework->check(subject);
  std::vector<MethodResult> results;
  std::optional<MethodResult> given;
  if (!flags.given_plan.empty()) given = given_plan(subject, stoppable);  // mistakes come first
  results.push_back(planned(subject, stoppable));
  if (!flags.save.empty()) write_file(flags.save, to_json(*results.front().planned));
  if (given) results.push_back(std::move(*given));
  for (const std::string& name : methods)
    if (!interrupt.came()) results.push_back(best_of(name, subject, stoppable));
  std::optional<FrameworkPlan> restricted;
  if (framework && !interrupt.came()) restricted = best_of_grid(*framework, subject, stoppable);
  const CompiledStep& plan = *results.front().planned;
  if (flags.as_json) {
    nlohmann::ordered_json report = report_json(subject, results);
    if (restricted) report["for"] = framework_json(*framework, subject, *restricted, plan);
    fmt::print("{}\n", report.dump(2));
  } else {
    fmt::print("{}", plan_text(subject, plan));
    if (flags.counts) fmt::print("\n{}", counts_text(plan, subject.cluster));
    if (results.size() > 1) fmt::print("\n{}", methods_text(subject, results));
    if (restricted) fmt::print("\n{}", framework_text(*framework, subject, *restricted, plan));
  }
  return interrupt.came() ? programs::kInterruptedStatus : 0;
}

}  // namespace

int plan_command(int argc, char** argv) {
  PlanFlags flags;
  RunFlags run;
  if (cli::parse(
          argc, argv,
          "Plans a model for a cluster that need not be there, and says what the plan takes.",
          rows_of(flags, run), &flags.given))
    return 0;
  check_flags(flags);
  if (cli::parts_of_list(run.hosts).size() == 1) flags.hosts = std::stoi(run.hosts);
  return run_plan(flags, run);
}
