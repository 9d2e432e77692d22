// tools/explain.cc — alpa explain FILE: explains a plan, or plans a model for a
// cluster and explains the result
#include <alpa/alpa.h>

#include "src/compile/plan_file.h"
#include "src/plan/cost/cost_model.h"
#include "tools/commands.h"
#include "tools/plan_or_model.h"

using namespace alpa;
using namespace tools;

namespace {

struct ExplainFlags : PlanOrModelFlags {
  bool full = false;

  Detail detail() const { return full ? Detail::full : Detail::summary; }
};

std::vector<cli::Flag> rows_of(ExplainFlags& f) {
  return cli::joined(
      {file_rows(f),
       {cli::on("--full", &f.full,
                "after the summary, list all state, the largest communications and choices")},
       planning_rows(f)});
}

std::string explain_sharding(const ExplainFlags& flags, const std::string& text) {
  const Graph graph = graph_from_plan_json(text, flags.file);
  const ShardingPlan plan = plan_from_json(text, graph, flags.file);
  const Cluster cluster = cluster_of_plan(flags, plan.mesh.num_devices());
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

std::string explain_model(const ExplainFlags& flags, const std::string& text) {
  const Cluster cluster = cluster_of_model(flags);
  return explain(planned_model(flags, text, cluster), cluster, flags.detail());
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
  const PlanOrModel file = read_plan_or_model(flags);
  fmt::print("{}",
             file.is_model ? explain_model(flags, file.text) : explain_plan(flags, file.text));
  return 0;
}
