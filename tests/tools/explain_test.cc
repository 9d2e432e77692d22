// alpa explain: plans and models from files.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "src/plan/cost/cost_model.h"
#include "support/program.h"
#include "support/temporary_file.h"
#include "tools/small_step.h"

namespace explain_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

ProgramOutput explain_file(const std::string& path, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"explain", path});
  return run_program(ALPA_TOOL, more);
}

}  // namespace

TEST_CASE("a plan's file is explained as the plan is, from the file alone") {
  const Cluster cluster = Cluster::local(4);
  const CompiledStep planned =
      plan_only(make_step(), Zero2Parallel{.num_micro_batches = 2}, cluster);
  const TemporaryFile file("explain_test_plan.json", to_json(planned));
  const cost::CostModel model = cost::CostModel::of(cluster);
  CHECK(explain_file(file.path()).text == explain(planned.plan.sharding(), planned.graph, model));
  CHECK(explain_file(file.path(), {"--full"}).text ==
        explain(planned.plan.sharding(), planned.graph, model, Detail::full));
}

TEST_CASE("a plan with stages is explained stage by stage") {
  const PipeshardParallel method{.layers = AutoLayers{2}};
  const CompiledStep planned = plan_only(make_step(), method, Cluster::local(2));
  const TemporaryFile file("explain_test_stages.json", to_json(planned));
  const cost::CostModel model = cost::CostModel::of(Cluster::local(2));
  const auto stage = [&](int s) {
    return explain(planned.plan.stages[s].plan, planned.plan.stages[s].graph, model);
  };
  CHECK(explain_file(file.path(), {"--devices", "2"}).text ==
        "Stage 0\n" + stage(0) + "\nStage 1\n" + stage(1));
}

TEST_CASE("a model's file with marked layers is planned in stages") {
  const TrainingStep step = training_step(
      {{"x", {f32, {32, 16}}}},
      [](const Batch& b) {
        return mean(square(nn::Dense(16)(mark_pipeline_boundary(nn::Dense(64)(b["x"])))));
      },
      optim::Adam{});
  const Graph graph = step.trace(4);
  const TemporaryFile file("explain_test_marked.txt", to_string(graph));
  const ProgramOutput output =
      explain_file(file.path(), {"--method", "pipeline", "--devices", "4"});
  CHECK(output.status == 0);
  CHECK(output.text.starts_with("pipeline of 2 stages, 1f1b, 4 micro-batches: "));
  const ProgramOutput unmarked = explain_file(
      TemporaryFile("explain_test_unmarked.txt", to_string(make_step().trace(1))).path(),
      {"--method", "pipeline", "--devices", "4"});
  CHECK(unmarked.text.find("mark where layers end with mark_pipeline_boundary") !=
        std::string::npos);
}

TEST_CASE("a model's file is planned for, then explained") {
  const CompiledStep planned =
      plan_only(make_step(), Zero3Parallel{.num_micro_batches = 2}, Cluster::local(4));
  const TemporaryFile file("explain_test_graph.txt", to_string(planned.graph));
  const ProgramOutput output = explain_file(file.path(), {"--method", "zero3", "--devices", "4"});
  CHECK(output.status == 0);
  CHECK(output.text == explain(planned.plan.sharding(), planned.graph,
                               cost::CostModel::of(Cluster::local(4)), Detail::summary,
                               planned.memory_bytes));
  CHECK(explain_file(file.path(), {"--mesh", "2x2", "--devices", "4"})
            .text.starts_with("Plan           shard on mesh 2x2 "));
}

TEST_CASE("files that are neither, and clusters that do not fit, are mistakes") {
  const auto mistake = [](const TemporaryFile& file, const std::vector<std::string>& more = {}) {
    const ProgramOutput output = explain_file(file.path(), more);
    CHECK(output.status == 2);
    return output.text;
  };
  const CompiledStep planned = plan_only(make_step(), DataParallel{}, Cluster::local(4));
  const std::string text = to_json(planned);
  const TemporaryFile plan("explain_test_mistake.json", text);
  CHECK(mistake(plan, {"--devices", "3"}) ==
        "alpa: plan explain_test_mistake.json: it is for 4 devices, but the cluster has 3\n");
  const TemporaryFile graph("explain_test_mistake.txt",
                            "graph micro_batches=1\n%0: f33[] = input()\n");
  CHECK(mistake(graph).starts_with("alpa: explain_test_mistake.txt: graph text, line 2: "));
  std::string old = text;
  old.replace(old.find("\"graph_text\""), 12, "\"graph_test\"");
  const TemporaryFile older("explain_test_older.json", old);
  CHECK(mistake(older) == "alpa: plan explain_test_older.json: graph_text is missing\n");
  std::string other = text;
  other.replace(other.find("[32, 16]"), 8, "[32, 17]");
  const TemporaryFile changed("explain_test_changed.json", other);
  CHECK(mistake(changed).starts_with(
      "alpa: plan explain_test_changed.json: graph_text: graph text, line "));
}

}  // namespace explain_test
