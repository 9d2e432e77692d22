// tools/plan_or_model.cc — reads a plan, or plans a model for a cluster
#include "tools/plan_or_model.h"

#include <alpa/alpa.h>

#include "models/common/imported.h"
#include "src/base/file.h"
#include "src/compile/plan_file.h"
#include "src/ops/custom_ops.h"

namespace tools {

using namespace alpa;

namespace {

constexpr FileKind kPlanOrModel{"plan or model file", 1 << 28};
constexpr int kDefaultDevices = 8, kMaxDevices = 1024;

Method method_of(const PlanOrModelFlags& flags, int num_micro_batches) {
  Method method = parse_method(flags.method);
  const auto set = [&](auto& options) {
    options.num_micro_batches = num_micro_batches;
    options.solver_seconds = flags.solver_seconds;
    if (flags.mesh != "auto") options.mesh_shape = parse_mesh_shape(flags.mesh);
  };
  std::visit(set, method);
  return method;
}

}  // namespace

Graph graph_of(const std::string& text, const std::string& path) {
  if (programs::is_stablehlo(text)) {
    const programs::Flags flags;
    return programs::imported_step(programs::imported(text, path, flags), path, flags).trace(1);
  }
  try {
    return parse_graph(text, known_ops());
  } catch (const Error& error) {
    fail("{}: {}", path, error.what());
  }
}

TrainingStep step_of(const Graph& graph) {
  return {.inputs = {}, .trace = [graph](const TraceOptions&) { return graph; }, .scalars = {}};
}

std::vector<cli::Flag> file_rows(PlanOrModelFlags& f) {
  return {cli::text("FILE", &f.file,
                    "a plan (as --save-plan writes it), or a model: the text of a training step's "
                    "graph (as --dump writes it, 01_graph.txt), or a function of JAX as StableHLO "
                    "text, for which a plan is made")};
}

std::vector<cli::Flag> planning_rows(PlanOrModelFlags& f) {
  using namespace cli;
  return joined(
      {in_group("Devices",
                {text("--cluster", &f.cluster,
                      "cluster whose devices count: a file, or a name such as dgx-a100"),
                 whole("--devices", &f.devices,
                       "CPU devices of this machine, without --cluster; by default 8, or those of "
                       "the plan",
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

PlanOrModel read_plan_or_model(const PlanOrModelFlags& flags) {
  cli::require_effect(flags.given, "--devices", !flags.cluster.empty(),
                      "beside --cluster, whose devices count");
  PlanOrModel file{read_file(flags.file, kPlanOrModel)};
  file.is_model = file.text.starts_with("graph ") || programs::is_stablehlo(file.text);
  for (const char* flag : {"--method", "--mesh", "--solver-seconds"})
    cli::require_effect(flags.given, flag, !file.is_model,
                        fmt::format("on the plan {}; it is for models", excerpt(flags.file)));
  cli::require_effect(flags.given, "--mesh", flags.method == "serial",
                      "with --method serial, which uses one device");
  return file;
}

CompiledStep read_plan(const PlanOrModelFlags& flags) {
  return plan_for_readers(read_file(flags.file, kPlanOrModel), flags.file);
}

int devices_of(const Plan& plan) {
  std::set<int> devices;
  for (const StagePlan& stage : plan.stages)
    devices.insert(stage.plan.mesh.devices().begin(), stage.plan.mesh.devices().end());
  return static_cast<int>(devices.size());
}

Cluster cluster_of(const PlanOrModelFlags& flags, int devices) {
  return flags.cluster.empty() ? Cluster::local(flags.devices.value_or(devices))
                               : Cluster::find(flags.cluster);
}

Cluster cluster_of_plan(const PlanOrModelFlags& flags, int devices) {
  Cluster cluster = cluster_of(flags, devices);
  require(cluster.num_devices() >= devices, "plan {}: it is for {} devices, but the cluster has {}",
          flags.file, devices, cluster.num_devices());
  return cluster;
}

Cluster cluster_of_model(const PlanOrModelFlags& flags) {
  return cluster_of(flags, kDefaultDevices);
}

CompiledStep planned_model(const PlanOrModelFlags& flags, const std::string& text,
                           const Cluster& cluster) {
  const Graph graph = graph_of(text, flags.file);
  return plan_only(step_of(graph), method_of(flags, graph.num_micro_batches), cluster);
}

}  // namespace tools
