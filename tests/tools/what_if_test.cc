// alpa what-if: the best plan under another condition, against a full search.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "src/compile/what_if.h"
#include "src/ilp/solve.h"
#include "src/ops/all_ops.h"
#include "src/plan/cost/cost_model.h"
#include "src/search/program/instance.h"
#include "support/nightly.h"
#include "support/program.h"
#include "support/random.h"
#include "support/temporary_file.h"
#include "tools/small_step.h"

namespace what_if_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// Slow links, so that splitting costs what it saves.
Cluster slow_cluster(int devices) {
  Cluster cluster = Cluster::named("dgx-a100").submesh(1, devices);
  cluster.within_host = {1e-6, 1e-9};
  return cluster;
}

TrainingStep step_of(std::int64_t width) {
  nn::Sequential mlp{nn::Dense(width), nn::ReLU(), nn::Dense(16)};
  return training_step(
      {{"x", {f32, {512, 16}}}, {"y", {f32, {512, 16}}}},
      [mlp](const Batch& b) { return mean(square(mlp(b["x"]) - b["y"])); }, optim::Sgd{});
}

/// Seconds of the cheapest plan of the whole program, in which strategies that leave the result of
/// `node` otherwise are infinitely dear.
double fully_searched(const StagePlan& stage, int node, const ShardingSpec& spec,
                      const Cluster& cluster) {
  intra_op::PlanningCache cache;
  const cost::CostModel model = cost::CostModel::of(cluster);
  const intra_op::SearchSpace space =
      search_space(stage.graph, {}, cache.of(stage.plan.mesh, model));
  intra_op::Instance instance = build_instance(stage.graph, space, stage.plan.mesh);
  const intra_op::NodeStrategies& choices = space.of(node);
  for (std::size_t s = 0; s < choices.strategies.size(); ++s)
    if (space.layouts.of(choices.result_types[0]).specs[choices.result_specs[0][s]] != spec)
      instance.problem.nodes[node].costs[s] = ilp::kInfinite;
  const ilp::Solution solution = ilp::solve(instance.problem);
  REQUIRE(solution.optimal);
  return static_cast<double>(solution.cost) / instance.units_per_second;
}

const CompiledStep& planned() {
  static const CompiledStep step =
      plan_only(make_step(), ShardParallel{.mesh_shape = {8}}, Cluster::named("dgx-a100"));
  return step;
}

struct PlanFile : TemporaryFile {
  explicit PlanFile(const CompiledStep& step) : TemporaryFile("what_if_plan.json", to_json(step)) {}
};

ProgramOutput ask(const std::string& path, std::vector<std::string> more) {
  more.insert(more.begin(), {"what-if", path});
  return run_program(ALPA_TOOL, more);
}

ProgramOutput ask(const CompiledStep& step, std::vector<std::string> more) {
  const PlanFile file(step);
  more.insert(more.end(), {"--cluster", "dgx-a100"});
  return ask(file.path(), more);
}

/// What is printed for a mistake, without the program's name.
std::string mistake(const CompiledStep& step, const std::vector<std::string>& more) {
  const ProgramOutput output = ask(step, more);
  CHECK(output.status == 2);
  CHECK(output.text.find('\n') == output.text.size() - 1);
  REQUIRE(output.text.starts_with("alpa: "));
  return output.text.substr(6, output.text.size() - 7);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("random layouts of operators cost what a full search of the restricted program finds") {
  Random random(1);
  int dearer = 0, near = 0;
  const int count = testing::sampled(4, 12);  // of 20 layouts
  for (int plans = 0; plans < count; ++plans) {
    const Cluster cluster = slow_cluster(below(random, 2) ? 4 : 8);
    ShardParallel method;
    if (below(random, 2)) method.mesh_shape = {2, cluster.num_devices() / 2};
    const CompiledStep step =
        plan_only(step_of(std::int64_t{64} << below(random, 4)), method, cluster);
    const CountedPlan asked = counted_plan(step.plan, cluster);
    Plan unproven = asked.plan;  // which is changed around the operator alone
    unproven.stages.front().plan.cost.lower_bound_seconds = 0;
    for (int query = 0; query < 20; ++query) {
      const StagePlan& stage = asked.plan.stages.front();
      const PlanOperator op{0, below(random, static_cast<int>(stage.graph.nodes.size()))};
      const std::vector<SpecChoice> choices = spec_choices(asked.plan, op, cluster);
      const SpecChoice& choice = choices[below(random, static_cast<int>(choices.size()))];
      CAPTURE(operator_text(asked.plan, op));
      CAPTURE(to_string(choice.spec));
      const CountedPlan best = what_if(asked.plan, cluster, {.set = {{op, choice.spec}}});
      const double seconds = best.plan.cost.objective_seconds;
      const Plan changed = what_if(unproven, cluster, {.set = {{op, choice.spec}}}).plan;
      CHECK(result_spec(changed, op) == choice.spec);
      CHECK(changed.cost.objective_seconds == doctest::Approx(seconds).epsilon(1e-3));
      near += changed.cost.lower_bound_seconds == 0;
      CHECK(result_spec(best.plan, op) == choice.spec);
      CHECK(seconds ==
            doctest::Approx(fully_searched(stage, op.node, choice.spec, cluster)).epsilon(1e-3));
      // what one operator alone can do is at most as good
      CHECK(seconds <= (asked.plan.cost.objective_seconds + choice.extra_seconds) * (1 + 1e-9));
      CHECK(seconds >= asked.plan.cost.objective_seconds * (1 - 1e-9));
      dearer += seconds > asked.plan.cost.objective_seconds * 1.01;
    }
  }
  CHECK(dearer > 5 * count);
  CHECK(near > 16 * count);
}

TEST_CASE("a layout that the plan has changes nothing, and another one is paid for") {
  const ProgramOutput same = ask(planned(), {"--set", "0/einsum=R"}),
                      other = ask(planned(), {"--set", "0/einsum=S1@0"});
  CAPTURE(same.text);
  CAPTURE(other.text);
  CHECK(same.status == 0);
  CHECK(has(same.text, "(+0, +0.0 %)\n"));
  CHECK(has(same.text, "bytes of a device\n  none\n"));
  CHECK(other.status == 0);
  const Cluster cluster = Cluster::named("dgx-a100");
  const CountedPlan asked = counted_plan(planned().plan, cluster);
  const PlanOperator op = find_operator(asked.plan, "0/einsum");
  const double seconds = fully_searched(asked.plan.stages[0], op.node, parse_spec("S1@0"), cluster);
  CHECK(has(other.text,
            fmt::format("step           {} -> {} (+",
                        seconds_text(asked.plan.cost.objective_seconds), seconds_text(seconds))));
  CHECK(has(other.text, "\nsent           0 MiB -> "));
  CHECK(has(other.text, "  *.kernel: a copy on every device -> 1 x columns split over x"));
}

TEST_CASE("an operator without a layout lists those it could have, the plan's first") {
  const ProgramOutput output = ask(planned(), {"--set", "0.kernel"});
  CAPTURE(output.text);
  CHECK(output.status == 0);
  CHECK(
      output.text.starts_with("input \"0.kernel\" can leave its result in these layouts\n"
                              "  R            as it is             a copy on every device\n"));
  CHECK(has(output.text, "  S0@0         +"));
  CHECK(has(output.text, "columns split over x (8 devices)\n"));
}

TEST_CASE("meshes, budgets and links are those of a plan made for them") {
  const Cluster cluster = Cluster::named("dgx-a100");
  const CountedPlan asked = counted_plan(planned().plan, cluster);
  const auto seconds = [](const Method& method, const Cluster& of) {
    return plan_only(make_step(), method, of).plan.cost.objective_seconds;
  };
  CHECK(what_if(asked.plan, cluster, {.mesh_shape = {{2, 4}}}).plan.cost.objective_seconds ==
        seconds(ShardParallel{.mesh_shape = {2, 4}}, cluster));
  CHECK(what_if(asked.plan, cluster, {.mesh_shape = {{}}}).plan.cost.objective_seconds ==
        seconds(ShardParallel{}, cluster));
  Cluster fast = cluster;
  fast.within_host = {0, 1e-14};
  CHECK(what_if(asked.plan, fast, {.is_other_cluster = true}).plan.cost.objective_seconds ==
        seconds(ShardParallel{.mesh_shape = {8}}, fast));
  const CountedPlan small = what_if(asked.plan, cluster, {.budget = 3 * asked.memory_bytes / 4});
  CHECK(small.memory_bytes <= 3 * asked.memory_bytes / 4);
  CHECK(small.plan.cost.objective_seconds > asked.plan.cost.objective_seconds);
  const ProgramOutput links = ask(planned(), {"--link", "intra=1e9"});
  CHECK(links.status == 0);
  CHECK(links.text.starts_with("kept           "));
  CHECK(ask(planned(), {"--mesh", "2x4"}).status == 0);
  CHECK(ask(planned(), {"--budget", "1000000"}).status == 0);
}

TEST_CASE("of a plan in stages, the operator's stage is planned again and the step is predicted") {
  const Cluster cluster = Cluster::named("dgx-a100");
  const PipeshardParallel method{
      .num_micro_batches = 4, .layers = AutoLayers{2}, .stages = UniformStages{2}};
  const CompiledStep step = plan_only(make_step(), method, cluster);
  // what a file tells is enough for the same prediction
  const CountedPlan asked = counted_plan(step.plan, cluster);
  CHECK(asked.plan.cost.objective_seconds == doctest::Approx(step.plan.cost.objective_seconds));
  const PlanOperator op = find_operator(asked.plan, "2/einsum");
  CHECK(op.stage == 1);
  const CountedPlan best = what_if(asked.plan, cluster, {.set = {{op, parse_spec("S1@0")}}});
  CHECK(best.plan.stages[0].plan.strategies == asked.plan.stages[0].plan.strategies);
  CHECK(best.plan.stages[1].plan.cost.objective_seconds ==
        doctest::Approx(fully_searched(asked.plan.stages[1], op.node, parse_spec("S1@0"), cluster))
            .epsilon(1e-3));
  CHECK(best.plan.cost.objective_seconds > asked.plan.cost.objective_seconds);
  const ProgramOutput output = ask(step, {"--set", "1:2/einsum=S1@0"});
  CAPTURE(output.text);
  CHECK(output.status == 0);
  CHECK(has(output.text, fmt::format(" -> {} (+", seconds_text(best.plan.cost.objective_seconds))));
  CHECK(has(mistake(step, {"--set", "%3=R"}),
            "2 operators are called \"%3\"; name one by its value: 0:%3, 1:%3"));
}

TEST_CASE("a model is planned first") {
  const TemporaryFile file("what_if_graph.txt", to_string(make_step().trace(1)));
  const ProgramOutput output =
      ask(file.path(), {"--devices", "4", "--set", "0/einsum=S0@0", "--method", "shard"});
  CAPTURE(output.text);
  CHECK(output.status == 0);
  CHECK(has(output.text, "\nstep           "));
}

TEST_CASE("mistakes of questions are one line each that says what is valid") {
  CHECK(mistake(planned(), {}) == "nothing is asked; give --set, --mesh, --budget or --link");
  CHECK(mistake(planned(), {"--set", "0.kern=R"}) ==
        "the plan has no operator \"0.kern\"; among its operators are \"0.kernel\", "
        "\"0.kernel.adam_m\", \"0.kernel.adam_v\"");
  CHECK(has(mistake(planned(), {"--set", "multi_tensor_adam=R"}),
            "4 operators are called \"multi_tensor_adam\"; name one by its value: %"));
  CHECK(mistake(planned(), {"--set", "0/einsum=S5@0"}) ==
        "einsum \"0/einsum\" cannot leave f32[32, 64] as S5@0; it can on mesh 8 as R, S0@0, "
        "S1@0, P+@0");
  CHECK(has(mistake(planned(), {"--set", "0/einsum=whole"}), "write \"R\", or words like"));
  CHECK(has(mistake(planned(), {"--set", "0/einsum", "--mesh", "8"}),
            "--mesh has no effect beside --set OP"));
  CHECK(has(mistake(planned(), {"--mesh", "3"}), "the product of the axes must be 8"));
  CHECK(has(mistake(planned(), {"--mesh", "3y"}), "--mesh is '3y'; it must be auto or sizes"));
  CHECK(has(mistake(planned(), {"--budget", "0"}), "--budget is '0'; it must be a whole number"));
  CHECK(has(mistake(planned(), {"--budget", "1"}), "fits into 1 bytes per device"));
  CHECK(mistake(planned(), {"--link", "inter=100e9"}) ==
        "--link inter has no effect: the cluster is one host; give intra, or more hosts");
  CHECK(has(mistake(planned(), {"--link", ""}), "--link is empty; give it a value"));
  for (const char* link : {"intra", "intra=0", "intra=x", "outer=5", "intra=5,"})
    CHECK(has(mistake(planned(), {"--link", link}), "it must be inter=RATE or intra=RATE"));
  CHECK(has(mistake(planned(), {"--speed", "1"}), "--help lists the flags"));
  const PlanFile file(planned());
  CHECK(has(ask(file.path(), {"--mesh", "8", "--devices", "8"}).text,
            "it was planned for another cluster with other links: stage 0 took "));
  const TemporaryFile other("what_if_other.json", "{}");
  const ProgramOutput output = ask(other.path(), {"--mesh", "8"});
  CHECK(output.status == 2);
  CHECK(output.text == "alpa: plan what_if_other.json: schema is missing\n");
}

}  // namespace what_if_test
