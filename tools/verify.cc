// tools/verify.cc — alpa verify PLAN: checks a plan file before it is relied on
#include <alpa/alpa.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "src/api/parallelize.h"
#include "src/base/file.h"
#include "src/base/host_memory.h"
#include "src/compile/plan_file.h"
#include "src/compile/search.h"
#include "src/lower/lower_program.h"
#include "src/lower/rank_classes.h"
#include "src/search/stages/whole_graph.h"
#include "tools/commands.h"
#include "tools/common/flag_table.h"
#include "tools/compared_step.h"
#include "tools/plan_or_model.h"
#include "tools/reduced_extents.h"

using namespace alpa;
using namespace tools;

namespace {

constexpr FileKind kModelFile{"model file", 1 << 28};
constexpr std::size_t kMostTensors = 10;
constexpr int kMostDevices = 256;  // threads of one process

struct VerifyFlags : PlanOrModelFlags {
  std::string model;
  std::optional<std::int64_t> budget;
  double most_flops = 1e11;
};

std::vector<cli::Flag> rows_of(VerifyFlags& f) {
  using namespace cli;
  return joined(
      {{text("PLAN", &f.file, "a plan, as --save-plan writes it"),
        text("--model", &f.model,
             "the text of the graph that it must be for (as --dump writes it, 01_graph.txt)"),
        whole("--budget", &f.budget, "bytes a device may use; by default those of the cluster", 1,
              std::numeric_limits<std::int64_t>::max()),
        positive_number("--most-flops", &f.most_flops,
                        "a step of more floating-point operations is not run")},
       in_group("Devices",
                {text("--cluster", &f.cluster,
                      "cluster that it is for: a file, or a name such as dgx-a100; by default CPU "
                      "devices of this machine")})});
}

/// A plan file, and what it is checked against.
struct PlanToVerify {
  std::string text, path;
  std::optional<Graph> graph = {};  ///< of the step it is for; default: what the file tells
  Cluster cluster = {};
  std::optional<std::int64_t> budget = {};  ///< bytes of a device; default: those of the cluster
};

/// Files hold seconds in full; sums may be in another order.
constexpr double kSameSeconds = 1e-9;

/// What the invariants of passes say is about the plan here, which a user gives.
template <class Call>
auto as_mistakes(const std::string& title, const Call& call) {
  try {
    return call();
  } catch (const Bug& bug) {
    fail("{}: {}", title, bug.what());
  }
}

Graph joined_graph(const Plan& plan, const std::string& path) {
  try {
    return whole_graph(plan.stages);
  } catch (const Error& error) {
    fail("plan {}: {}", path, error.what());
  }
}

/// Graph and plan: of the step that is given, or that the file tells.
CompiledStep read_plan(const PlanToVerify& plan, const CompiledStep& told) {
  std::optional<Graph> graph = plan.graph;
  if (!graph && told.plan.stages.size() == 1) graph = told.plan.stages.front().graph;
  if (!graph) return {.graph = joined_graph(told.plan, plan.path), .plan = told.plan};
  return plan_from_json(plan.text, step_of(*graph), graph->num_micro_batches, plan.path);
}

void require_seconds(const std::string& title, const std::string& what, double told, double found) {
  require(
      std::abs(told - found) <= kSameSeconds * std::max(told, found),
      "{}: {} takes {:.6g} s by the file, but {:.6g} s on this cluster; name the cluster it was "
      "planned for with --cluster, or plan again",
      title, what, told, found);
}

/// The links of its meshes are in the file, so that those of other links have other seconds, too.
void check_seconds(const CompiledStep& told, const CompiledStep& found, const Cluster& cluster,
                   const std::string& title) {
  const cost::CostModel model = cost::CostModel::of(cluster);
  for (std::size_t s = 0; s < told.plan.stages.size(); ++s) {
    const StagePlan& stage = told.plan.stages[s];
    require_seconds(title, fmt::format("stage {}", s), stage.plan.cost.objective_seconds,
                    evaluate(stage.plan, stage.graph, model).objective_seconds);
  }
  require_seconds(title, "a step", told.plan.cost.objective_seconds,
                  found.plan.cost.objective_seconds);
}

/// The plan with the programs of all devices. Throws Error that names what is wrong unless the plan
/// follows its graph's rules on its meshes; stages get what they read; it was made for this graph
/// and has the seconds it tells; every pass keeps its invariants; devices do not wait for each
/// other in a circle; and each keeps the budget.
CompiledStep verified(const PlanToVerify& plan) {
  const std::string title = "plan " + plan.path;
  const CompiledStep told = plan_for_readers(plan.text, plan.path);
  CompiledStep read = as_mistakes(title, [&] { return read_plan(plan, told); });
  check_devices(read.plan, plan.cluster, plan.path);
  const std::int64_t budget = plan.budget.value_or(plan.cluster.device.memory_bytes);
  const ExecutorOptions options;
  const PassLog log("");
  CompiledStep lowered = as_mistakes(title, [&] {
    verify(read.graph);
    CompiledStep step = run_passes(read.graph, read.plan, {plan.cluster, options, budget, log});
    lower::verify_schedules(lower::programs_of_all(*step.program, step.lowered->firsts),
                            *step.program);
    return step;
  });
  check_seconds(told, lowered, plan.cluster, title);
  require(budget == 0 || lowered.memory_bytes <= budget,
          "{}: it needs {} bytes per device, {} more than the {} that a device may use; plan again "
          "within them, or raise --budget",
          title, lowered.memory_bytes, lowered.memory_bytes - budget, budget);
  return lowered;
}

void line(const char* label, const std::string& words) { fmt::print("{:<12} {}\n", label, words); }

/// What stands against running a step of the plan here; empty: nothing.
std::string why_not_run(const VerifyFlags& flags, const Plan& plan) {
  double flops = 0, bytes = 0;
  for (const StagePlan& stage : plan.stages) {
    flops += flops_per_step(stage.graph);
    for (const ValueInfo& value : stage.graph.values)
      bytes += static_cast<double>(value.type.bytes());
  }
  if (flops > flags.most_flops)
    return fmt::format("a step has {:.2g} floating-point operations; --most-flops {:.2g} runs it",
                       flops, flops);
  const int devices = devices_of(plan);
  if (devices > kMostDevices)
    return fmt::format("it is for {} devices; at most {} run here", devices, kMostDevices);
  bytes *= devices + 1;  // as if every device had all
  const auto free = static_cast<double>(host_memory().available_bytes);
  if (bytes > free)
    return fmt::format("a step in f64 may take {}, but {} are free", bytes_text(bytes),
                       bytes_text(free));
  return "";
}

/// Prints the tensors that differ most. Throws Error naming the first if that is no rounding.
void tell(const std::vector<TensorDifference>& differences, bool is_reduced,
          const std::string& path) {
  const TensorDifference& worst = differences.front();
  require(std::ranges::all_of(differences, &TensorDifference::is_rounding),
          "plan {}: after one step in f64, \"{}\" differs from that of one device by {:.3g}; its "
          "largest element is {:.3g}",
          path, worst.name, worst.largest, worst.scale);
  line("one step",
       fmt::format("{} tensors in f64 at {} extents as on one device; the largest differences of "
                   "an element, and the largest elements:",
                   differences.size(), is_reduced ? "reduced" : "their"));
  for (std::size_t i = 0; i < std::min(kMostTensors, differences.size()); ++i)
    fmt::print("  {:<40} {:>8.2g} {:>8.2g}\n", differences[i].name, differences[i].largest,
               differences[i].scale);
}

/// Runs the operators that the program defined in parts, by themselves, so that one with a wrong
/// rule is named.
void check_operators(const Plan& plan, const std::string& path) {
  std::set<std::string_view> names;
  for (const StagePlan& stage : plan.stages) try {
      verify_ops(stage.graph);
      for (const Node& node : stage.graph.nodes)
        if (node.op->custom) names.insert(node.op->name);
    } catch (const Error& error) {
      fail("plan {}: {}", path, error.what());
    }
  if (!names.empty())
    line("operators",
         fmt::format("{} compute in parts what they compute whole", fmt::join(names, ", ")));
}

void compare(const VerifyFlags& flags, const CompiledStep& step, const Cluster& cluster) {
  Plan plan = step.plan;
  plan.stages = with_reduced_extents(plan.stages);
  const bool is_reduced = plan.stages.front().graph.values != step.plan.stages.front().graph.values;
  try {
    plan.stages = stages_in_f64(plan);
  } catch (const Error& error) {
    return line("one step", fmt::format("not compared: it has no form in f64: {}", error.what()));
  }
  const std::string why = why_not_run(flags, plan);
  if (!why.empty()) return line("one step", "not compared: " + why);
  check_operators(plan, flags.file);
  tell(compared_step(plan, cluster), is_reduced, flags.file);
}

void print_static(const CompiledStep& step) {
  const Plan& plan = step.plan;
  std::size_t nodes = 0, values = 0, reshards = 0;
  for (const StagePlan& stage : plan.stages) {
    nodes += stage.graph.nodes.size();
    values += stage.graph.values.size();
    reshards += stage.plan.reshards.size();
  }
  line("plan", fmt::format("{} on meshes {}, {} devices", plan.method, meshes_text(plan),
                           devices_of(plan)));
  line("layouts", fmt::format("{} operators, {} tensors and {} conversions follow their rules",
                              nodes, values, reshards));
  line("step",
       fmt::format("{} predicted, as the file says", seconds_text(plan.cost.objective_seconds)));
  line("programs", fmt::format("of all devices, in {} stage{}: complete, and without a deadlock",
                               plan.stages.size(), plan.stages.size() == 1 ? "" : "s"));
  line("memory", fmt::format("{} of a device", bytes_text(static_cast<double>(step.memory_bytes))));
}

}  // namespace

int verify_command(int argc, char** argv) {
  VerifyFlags flags;
  if (cli::parse(argc, argv,
                 "Checks a plan file: all that can be known without running it, then one step in "
                 "f64 on CPU devices beside one device.",
                 rows_of(flags), &flags.given))
    return 0;
  PlanToVerify plan{.text = read_plan_or_model(flags).text, .path = flags.file};
  if (!flags.model.empty()) plan.graph = graph_of(read_file(flags.model, kModelFile), flags.model);
  plan.cluster = cluster_of_plan(flags, devices_of(read_plan(flags).plan));
  plan.budget = flags.budget;
  const CompiledStep step = verified(plan);
  print_static(step);
  compare(flags, step, plan.cluster);
  return 0;
}
