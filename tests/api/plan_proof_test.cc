// What the texts of a pipelined step say of its distance from the optimum.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "alpa/base/text.h"
#include "support/staged_mlp.h"

namespace plan_proof_test {

using namespace alpa;

namespace {

TrainingStep mlp_step() { return alpa::testing::staged_mlp_step(64, 32); }

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// The line of a step, with this end.
std::string line(const CompiledStep& step, const std::string& proof) {
  return fmt::format(
      "pipeline of {} stages, 1f1b, 4 micro-batches: {} per step predicted, bubble {:.0f} %, {}",
      step.plan.stages.size(), seconds_text(step.plan.cost.objective_seconds),
      100 * step.plan.bubble, proof);
}

/// Checks the summary, the explanation and the file of a step.
void check_texts(const CompiledStep& step, const std::string& proof) {
  CHECK(first_line(to_string(step)) == line(step, proof));
  CHECK(first_line(explain(step, Cluster::local(4))) == line(step, proof));
  CHECK(nlohmann::json::parse(to_json(step)).at("proof") == proof);
}

/// The bound is one on what the search counts; what is predicted of the schedule may be more.
std::string proof_of(const CompiledStep& step) {
  const PlanCost& cost = step.plan.cost;
  return cost.gap() > 1e-9
             ? fmt::format("within {} % of optimal (no plan takes less than {})",
                           two_digits(100 * cost.gap()), seconds_text(cost.lower_bound_seconds))
             : "proven optimal";
}

}  // namespace

TEST_CASE("stages that were searched for say how far from the optimum they are at most") {
  PipeshardParallel method{.num_micro_batches = 4, .stages = AutoStages{}, .relative_gap = 0};
  const CompiledStep exact = plan_only(mlp_step(), method, Cluster::local(4));
  CHECK(exact.plan.cost.gap() < 0.1);
  check_texts(exact, proof_of(exact));
  method.relative_gap = 0.005;  // the bound stays that of plans without a budget
  method.memory_budget_bytes =
      plan_only(mlp_step(), method, Cluster::local(4)).memory_bytes * 8 / 10;
  const CompiledStep tight = plan_only(mlp_step(), method, Cluster::local(4));
  REQUIRE(tight.plan.cost.gap() > 0);
  check_texts(tight, proof_of(tight));
}

TEST_CASE("stages that were given say that only each alone is proven") {
  const std::string proof = "not compared with other stages, each alone proven optimal";
  check_texts(plan_only(mlp_step(), PipeshardParallel{.num_micro_batches = 4}, Cluster::local(4)),
              proof);
  const PipeshardParallel manual{.num_micro_batches = 4, .stages = ManualStages{{{0}, {1, 2, 3}}}};
  check_texts(plan_only(mlp_step(), manual, Cluster::local(4)), proof);
}

TEST_CASE("a step that follows another one's stages says so") {
  const auto evaluate = [](const Batch& b) { return mean(square(nn::Dense(32)(b["x"]))); };
  const std::vector<BatchInput> inputs{{"x", {f32, {64, 32}}}};
  const auto [train, follower] =
      parallelize(mlp_step(), evaluation_step(inputs, evaluate),
                  PipeshardParallel{.num_micro_batches = 4}, Cluster::local(4));
  CHECK(first_line(to_string(follower.planned())).ends_with(", along the plan of another step"));
}

}  // namespace plan_proof_test
