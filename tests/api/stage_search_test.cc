// Searching for stages as users ask for it: memory, allowed parts, progress, and an early end.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "support/error_text.h"
#include "support/staged_mlp.h"

namespace stage_search_test {

using namespace alpa;
using alpa::testing::error_of;

namespace {

constexpr std::int64_t kRows = 1024, kWidth = 64;

TrainingStep mlp_step() { return alpa::testing::staged_mlp_step(kRows, kWidth); }

std::map<std::string, Array> batch() {
  std::vector<float> x(kRows * kWidth);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.37F * static_cast<float>(i));
  return {{"x", Array(x, {kRows, kWidth})}};
}

/// The loss after two steps.
double loss_of(const Method& method, int devices) {
  const Executable train = parallelize(mlp_step(), method, Cluster::local(devices));
  TrainState state = train.init(1);
  train.run(state, batch());
  const double loss = train.run(state, batch()).loss();
  CHECK(train.measured_bytes(state) == train.memory_bytes());
  return loss;
}

}  // namespace

TEST_CASE("stages over the memory budget get plans with less memory, which is what they take") {
  PipeshardParallel method{.num_micro_batches = 4, .stages = UniformStages{2}};
  const CompiledStep free = plan_only(mlp_step(), method, Cluster::local(4));
  method.memory_budget_bytes = free.memory_bytes * 9 / 10;
  const CompiledStep planned = plan_only(mlp_step(), method, Cluster::local(4));
  REQUIRE(planned.plan.stages.size() == 2);
  std::int64_t most = 0;
  for (const StagePlan& stage : planned.plan.stages) most = std::max(most, stage.memory.total());
  CHECK(most == planned.memory_bytes);
  CHECK(most <= *method.memory_budget_bytes);
  CHECK(planned.plan.cost.objective_seconds > free.plan.cost.objective_seconds);
  CHECK(loss_of(method, 4) ==
        doctest::Approx(loss_of(Serial{.num_micro_batches = 4}, 1)).epsilon(1e-5));
  method.memory_budget_bytes = free.memory_bytes / 10;
  CHECK(error_of([&] {
          plan_only(mlp_step(), method, Cluster::local(4));
        }).starts_with("method pipeline: the stages need "));
}

TEST_CASE("stages that are searched for keep to the parts and logical shapes that are allowed") {
  const auto plan = [](const AutoStages& stages, int devices) {
    return plan_only(mlp_step(), PipeshardParallel{.num_micro_batches = 8, .stages = stages},
                     Cluster::local(devices));
  };
  const CompiledStep pairs = plan({.mesh_shapes = {{2}}}, 4);
  REQUIRE(pairs.plan.stages.size() == 2);
  for (const StagePlan& stage : pairs.plan.stages) CHECK(shape_text(stage.plan.mesh) == "2");
  const CompiledStep powers = plan({.submeshes = SubmeshSizes::powers_of_two}, 4);
  for (const StagePlan& stage : powers.plan.stages) CHECK(stage.plan.mesh.num_devices() != 3);
  CHECK(error_of([&] { plan({.submeshes = SubmeshSizes::powers_of_two}, 6); }) ==
        "submeshes: parts of 1, 2, 4, … devices do not tile hosts of 6 devices; use parts of any "
        "size");
  CHECK(error_of([&] { plan({.mesh_shapes = {{3}}}, 4); })
            .starts_with("AutoStages: no stages of 4 layers with the logical mesh shapes that are "
                         "allowed tile 4 devices and fit into "));
}

TEST_CASE(
    "the search for stages reports its best, its bound and its searches, and ends when told") {
  std::vector<PlanningProgress> reports;
  std::atomic<bool> stop = false;
  PipeshardParallel method{.num_micro_batches = 8, .stages = AutoStages{}, .stop = &stop};
  method.progress = [&](const PlanningProgress& now) { reports.push_back(now); };
  const CompiledStep found = plan_only(mlp_step(), method, Cluster::local(4));
  REQUIRE(reports.size() > 1);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    CHECK(reports[i].searches <= reports[i].ranges);
    CHECK(reports[i].lower_bound_seconds <= reports[i].best_seconds);
    if (i == 0) continue;
    CHECK(reports[i].lower_bound_seconds >= reports[i - 1].lower_bound_seconds);
    CHECK(reports[i].best_seconds <= reports[i - 1].best_seconds);
    CHECK(reports[i].searches >= reports[i - 1].searches);
  }
  CHECK(reports.back().gap() <= 0.03);
  CHECK(reports.back().stages == static_cast<int>(found.plan.stages.size()));
  CHECK(found.plan.cost.lower_bound_seconds ==
        doctest::Approx(
            std::min(reports.back().lower_bound_seconds, found.plan.cost.objective_seconds)));
  const int searches = reports.back().searches;

  reports.clear();
  method.progress = [&](const PlanningProgress& now) {
    reports.push_back(now);
    stop = true;
  };
  const CompiledStep early = plan_only(mlp_step(), method, Cluster::local(4));
  CHECK(!early.plan.stages.empty());
  CHECK(reports.front().searches < searches);
  CHECK(reports.back().searches == reports.front().searches);
  CHECK(reports.back().best_seconds < std::numeric_limits<double>::infinity());
  CHECK(loss_of(method, 4) ==
        doctest::Approx(loss_of(Serial{.num_micro_batches = 8}, 1)).epsilon(1e-5));
}

TEST_CASE("what a step holds is refused at once if no division fits, with what it takes") {
  const PipeshardParallel method{
      .num_micro_batches = 8, .stages = AutoStages{}, .memory_budget_bytes = 1000};
  CHECK_THROWS_WITH_AS(plan_only(mlp_step(), method, Cluster::local(4)),
                       doctest::Contains("with 8 micro-batches, parameters and optimizer state ("),
                       Error);
}

}  // namespace stage_search_test
