// tools/what_if.cc — alpa what-if FILE: what the best plan takes under another condition
#include <alpa/alpa.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "src/base/infinity.h"
#include "src/compile/what_if.h"
#include "src/report/plan_difference.h"
#include "src/report/plan_summary.h"
#include "src/report/report_json.h"
#include "tools/commands.h"
#include "tools/plan_or_model.h"

using namespace alpa;
using namespace tools;

namespace {

struct WhatIfFlags : PlanOrModelFlags {
  std::string set, link, mesh_then = "as it is";
  std::optional<std::int64_t> budget;

  bool was_given(const char* flag) const { return given.contains(flag); }
  /// `--set OP` without a spec.
  bool lists() const { return was_given("--set") && set.find('=') == std::string::npos; }
};

constexpr const char* kChanges[] = {"--set", "--mesh", "--budget", "--link"};

/// The rows about devices, and those of a model's plan but for its mesh.
std::vector<cli::Flag> first_rows(WhatIfFlags& f) {
  std::vector<cli::Flag> rows;
  for (cli::Flag& row : planning_rows(f))
    if (row.name != "--mesh") rows.push_back(std::move(row));
  return rows;
}

std::vector<cli::Flag> rows_of(WhatIfFlags& f) {
  using namespace cli;
  return joined(
      {file_rows(f),
       in_group("Question",
                {text("--set", &f.set,
                      "OP=SPEC: the operator OP leaves its first result as SPEC, such as S0@1 "
                      "(dimension 0 split over mesh axis 1) or R (whole); OP alone lists what it "
                      "could be"),
                 text("--mesh", &f.mesh_then, "logical mesh of the stages; auto tries all",
                      "auto or sizes like 8, 1x8 or 2x4",
                      [](const std::string& mesh) { return is_mesh_shape(mesh); }),
                 whole("--budget", &f.budget, "bytes a device may use", 1,
                       std::numeric_limits<std::int64_t>::max()),
                 text("--link", &f.link,
                      "bytes per second of a device's link between hosts, inter=100e9, or within "
                      "a host, intra=300e9; or both, with a comma between them")}),
       first_rows(f)});
}

/// "inter=100e9" in the links of a cluster.
void set_link(const std::string& text, Cluster& cluster) {
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string which = text.substr(0, equals);
  const auto rate = cli::parse_number(text.substr(std::min(equals + 1, text.size())));
  require((which == "inter" || which == "intra") && rate && *rate > 0,
          "--link is '{}'; it must be inter=RATE or intra=RATE, in bytes per second above 0, or "
          "both with a comma between them",
          excerpt(text));
  if (which == "intra") {
    cluster.within_host.beta_seconds_per_byte = 1 / *rate;
    cluster.measured_within_host = {};
    return;
  }
  require(cluster.num_hosts > 1,
          "--link inter has no effect: the cluster is one host; give intra, or more hosts");
  cluster.adapters.bytes_per_second *= *rate * cluster.between_hosts.beta_seconds_per_byte;
  cluster.between_hosts.beta_seconds_per_byte = 1 / *rate;
}

Cluster with_links(Cluster cluster, const std::string& links) {
  for (std::size_t begin = 0; begin <= links.size();) {
    const std::size_t end = std::min(links.find(',', begin), links.size());
    set_link(links.substr(begin, end - begin), cluster);
    begin = end + 1;
  }
  return cluster;
}

void check_flags(const WhatIfFlags& flags) {
  require(std::ranges::any_of(kChanges, [&](const char* flag) { return flags.was_given(flag); }),
          "nothing is asked; give --set, --mesh, --budget or --link");
  for (const char* flag : {"--mesh", "--budget", "--link"})
    cli::require_effect(flags.given, flag, flags.lists(),
                        "beside --set OP, which lists what the operator could be");
}

/// The flags as those of reports: --mesh and the seconds are about the question.
PlanOrModelFlags file_flags(const WhatIfFlags& flags) {
  PlanOrModelFlags file = flags;
  for (const char* flag : {"--mesh", "--solver-seconds"}) file.given.erase(flag);
  return file;
}

struct Asked {
  Cluster cluster;
  CountedPlan plan;
};

Asked asked_plan(const PlanOrModelFlags& flags) {
  const PlanOrModel file = read_plan_or_model(flags);
  const CompiledStep read = file.is_model ? CompiledStep{} : read_plan(flags);
  const Cluster cluster =
      file.is_model ? cluster_of_model(flags) : cluster_of_plan(flags, devices_of(read.plan));
  try {
    return {cluster,
            counted_plan(file.is_model ? planned_model(flags, file.text, cluster).plan : read.plan,
                         cluster)};
  } catch (const Error& error) {
    fail("plan {}: {}", flags.file, error.what());
  }
}

PlanChange::Set parse_set(const std::string& text, const Plan& plan) {
  const std::size_t equals = text.rfind('=');
  return {find_operator(plan, text.substr(0, equals)), parse_spec(text.substr(equals + 1))};
}

std::string spec_text(const Plan& plan, const PlanOperator& op, const ShardingSpec& spec) {
  const StagePlan& stage = plan.stages[op.stage];
  const int value = stage.graph.nodes[op.node].results[0];
  return describe(spec, stage.graph.type(value).rank(), stage.plan.mesh);
}

std::string choices_text(const Asked& asked, const std::string& name) {
  const Plan& plan = asked.plan.plan;
  const PlanOperator op = find_operator(plan, name);
  std::string text =
      fmt::format("{} can leave its result in these layouts\n", operator_text(plan, op));
  for (const SpecChoice& choice : spec_choices(plan, op, asked.cluster)) {
    const bool is_now = choice.spec == result_spec(plan, op);
    const std::string extra = is_now ? "as it is"
                              : choice.extra_seconds < kInfinity
                                  ? intra_op::extra_text(choice.extra_seconds)
                                  : "others must change";
    text += fmt::format("  {:<12} {:<20} {}\n", to_string(choice.spec), extra,
                        spec_text(plan, op, choice.spec));
  }
  return text +
         "Seconds are those of a step if all other operators stay: --set OP=SPEC plans them "
         "anew.\n";
}

PlanChange change_of(const WhatIfFlags& flags, const Plan& plan) {
  PlanChange change{.budget = flags.budget,
                    .is_other_cluster = flags.was_given("--link"),
                    .solver_seconds = flags.solver_seconds};
  if (flags.was_given("--set")) change.set = parse_set(flags.set, plan);
  if (flags.was_given("--mesh"))
    change.mesh_shape =
        flags.mesh_then == "auto" ? std::vector<int>{} : parse_mesh_shape(flags.mesh_then);
  return change;
}

/// What a change of links means for the plan as it is.
std::string kept_text(const Asked& asked, const Cluster& cluster) {
  const double before = asked.plan.plan.cost.objective_seconds,
               kept = kept_plan(asked.plan.plan, cluster).plan.cost.objective_seconds;
  return fmt::format("{:<14} {} if the plan stays\n", "kept",
                     change_text(before, kept, seconds_text));
}

std::string answer_text(const WhatIfFlags& flags, const Asked& asked) {
  const Plan& plan = asked.plan.plan;
  const PlanChange change = change_of(flags, plan);
  const Cluster then =
      change.is_other_cluster ? with_links(asked.cluster, flags.link) : asked.cluster;
  const CountedPlan best = what_if(plan, then, change);
  return (change.is_other_cluster ? kept_text(asked, then) : "") +
         difference_text(plan_numbers(plan, asked.cluster, asked.plan.memory_bytes),
                         plan_numbers(best.plan, then, best.memory_bytes));
}

}  // namespace

int what_if_command(int argc, char** argv) {
  WhatIfFlags flags;
  if (cli::parse(argc, argv,
                 "Says what the best plan takes under another condition: an operator in another "
                 "layout, another mesh, memory budget or link. Stages stay.",
                 rows_of(flags), &flags.given))
    return 0;
  check_flags(flags);
  const Asked asked = asked_plan(file_flags(flags));
  fmt::print("{}", flags.lists() ? choices_text(asked, flags.set) : answer_text(flags, asked));
  return 0;
}
