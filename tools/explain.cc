// tools/explain.cc — alpa explain FILE: explains a plan, or plans a model for a
// cluster and explains the result
#include <alpa/alpa.h>
#include "src/base/file.h"
#include "src/compile/plan_file.h"
#include "src/ops/all_ops.h"

#include <optional>
#include <set>

#include "src/cost/cost_model.h"
#include "tools/commands.h"
#include "tools/common/flag_table.h"

using namespace alpa;

namespace {

constexpr FileKind kPlanOrModel{"plan or model file", 1 << 28};
constexpr int kDefaultDevices = 8, kMaxDevices = 1024;

struct ExplainFlags {
  std::string file, cluster, method = "shard", mesh = "auto";
  std::optional<int> devices;
  double solver_seconds = 60;
  bool full = false;
  std::set<std::string> given = {};

  Detail detail() const { return full ? Detail::full : Detail::summary; }
};

std::vector<cli::Flag> rows_of(ExplainFlags& f) {
  using namespace cli;
  return joined(
      {{text("FILE", &f.file,
             "a plan (as --save-plan writes it), or a model: the text of a training step's graph "
             "(as --dump writes it, 01_graph.txt), for which a plan is made"),
        on("--full", &f.full,
           "after the summary, list all state, the largest communications and choices")},
       in_group(
           "Devices",
           {text("--cluster", &f.cluster,
                 "cluster whose devices count: a file, or a name such as dgx-a100"),
            whole("--devices", &f.devices,
                  "CPU devices of this machine, without --cluster; by default 8, or those of the "
                  "plan",
                  1, kMaxDevices)}),
       in_group("Plan of a model",
                {choice("--method", &f.method,
                        "how the step is spread over the devices; shard is automatic, pipeline "
                        "makes two stages of the layers that the model marks",
                        {"serial", "data", "zero2", "zero3", "shard", "pipeline"}),
                 text("--mesh", &f.mesh, "logical mesh; auto tries all",
                      "auto or sizes like 8, 1x8 or 2x4", is_mesh_shape),
                 positive_number("--solver-seconds", &f.solver_seconds,
                                 "for planning; then the best plan so far is taken")})});
}

Cluster cluster_of(const ExplainFlags& flags, int devices) {
  return flags.cluster.empty() ? Cluster::local(flags.devices.value_or(devices))
                               : Cluster::find(flags.cluster);
}

std::string explain_sharding(const ExplainFlags& flags, const std::string& text) {
  const Graph graph = graph_from_plan_json(text, flags.file);
  const ShardingPlan plan = plan_from_json(text, graph, flags.file);
  const int devices = plan.mesh.num_devices();
  const Cluster cluster = cluster_of(flags, devices);
  require(cluster.num_devices() >= devices, "plan {}: it is for {} devices, but the cluster has {}",
          flags.file, devices, cluster.num_devices());
  return explain(plan, graph, cost::CostModel::of(cluster), flags.detail());
}

/// Stage by stage.
std::string explain_plan(const ExplainFlags& flags, const std::string& text) {
  const std::vector<std::string> plans = sharding_plans(text, flags.file);
  if (plans.size() == 1) return explain_sharding(flags, plans.front());
  std::string explained;
  for (std::size_t s = 0; s < plans.size(); ++s)
    explained +=
        fmt::format("{}Stage {}\n{}", s > 0 ? "\n" : "", s, explain_sharding(flags, plans[s]));
  return explained;
}

Method method_of(const ExplainFlags& flags, int num_micro_batches) {
  Method method = parse_method(flags.method);
  const auto set = [&](auto& options) {
    options.num_micro_batches = num_micro_batches;
    options.solver_seconds = flags.solver_seconds;
    if (flags.mesh != "auto") options.mesh_shape = parse_mesh_shape(flags.mesh);
  };
  std::visit(set, method);
  return method;
}

Graph read_model(const ExplainFlags& flags, const std::string& text) {
  try {
    return parse_graph(text, all_ops());
  } catch (const Error& error) {
    fail("{}: {}", flags.file, error.what());
  }
}

std::string explain_model(const ExplainFlags& flags, const std::string& text) {
  const Graph graph = read_model(flags, text);
  const Cluster cluster = cluster_of(flags, kDefaultDevices);
  const TrainingStep step{
      .inputs = {}, .trace = [&](const TraceOptions&) { return graph; }, .scalars = {}};
  const CompiledStep planned = plan_only(step, method_of(flags, graph.num_micro_batches), cluster);
  return explain(planned, cluster, flags.detail());
}

}  // namespace

int explain_command(int argc, char** argv) {
  ExplainFlags flags;
  if (cli::parse(
          argc, argv,
          "Says where time and memory of a plan go, what is split how and what the next best "
          "costs.",
          rows_of(flags), &flags.given))
    return 0;
  cli::require_effect(flags.given, "--devices", !flags.cluster.empty(),
                      "beside --cluster, whose devices count");
  const std::string text = read_file(flags.file, kPlanOrModel);
  const bool is_model = text.starts_with("graph ");
  for (const char* flag : {"--method", "--mesh", "--solver-seconds"})
    cli::require_effect(flags.given, flag, !is_model,
                        fmt::format("on the plan {}; it is for models", excerpt(flags.file)));
  cli::require_effect(flags.given, "--mesh", flags.method == "serial",
                      "with --method serial, which uses one device");
  fmt::print("{}", is_model ? explain_model(flags, text) : explain_plan(flags, text));
  return 0;
}
