// What is planned follows from work, not from time: the same on a busy machine.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <vector>

#include "src/base/thread_team.h"
#include "src/base/work.h"
#include "src/compile/search.h"
#include "src/compile/variant_choice.h"
#include "support/busy_thread.h"
#include "support/gpt_stack.h"
#include "support/planning_suite.h"

namespace planning_work_test {

using namespace alpa;
using testing::BusyThread;

namespace {

struct Chosen {
  int micro_batches = 0;
  double seconds = 0, bound = 0;
  int searches = 0, ranges = 0;
  bool operator==(const Chosen&) const = default;
};

/// What a search finds that ends after so much work; the clock never ends it.
Chosen chosen_after(double seconds, const TrainingStep& step, const Cluster& cluster) {
  MethodOptions method =
      options_of(PipeshardParallel{.layers = AutoLayers{}, .stages = AutoStages{}, .schedule = {}});
  std::vector<StepVariant> variants;
  for (const int number : micro_batch_choices(step)) variants.push_back({step, number});
  method.begin_planning();
  method.work_limit = seconds;
  method.clock_limit = 1e6;
  VariantChoice choice(variants, method, cluster, memory_budget(method, cluster));
  const PlannedVariant& best = choice.best();
  const PlanningProgress progress = best.planner->progress();
  return {best.variant.num_micro_batches, best.best_seconds(), best.bound(), progress.searches,
          progress.ranges};
}

}  // namespace

TEST_CASE("variants that are searched in turns find the same beside other programs") {
  const testing::SuiteShape shape{
      .stack = {.layers = 6, .batch = 64, .sequence = 64, .hidden = 128, .heads = 4}};
  const TrainingStep step = testing::suite_step("gpt", shape);
  const Cluster cluster = Cluster::named("p3.16xlarge", 2);
  for (const double seconds : {0.3, 1.5}) {
    CAPTURE(seconds);
    const Chosen alone = chosen_after(seconds, step, cluster);
    const BusyThread one, two, three;
    CHECK(chosen_after(seconds, step, cluster) == alone);
  }
}

TEST_CASE("a variant that cannot be lowered gives way to another plan, also behind the limit") {
  const TrainingStep step = testing::suite_step(
      "gpt", {.stack = {.layers = 2, .batch = 16, .sequence = 32, .hidden = 64, .heads = 4}});
  const Cluster cluster = Cluster::named("p3.16xlarge", 1);
  MethodOptions method = options_of(PipeshardParallel{.num_micro_batches = kAutoMicroBatches,
                                                      .layers = AutoLayers{},
                                                      .stages = AutoStages{},
                                                      .schedule = {}});
  method.begin_planning();
  const PassLog log("");
  std::vector<const Graph*> lowered;  // each variant has a graph of its own
  const PlanRequest request{step, method, cluster, log, [&](const Graph& graph, Plan plan) {
                              lowered.push_back(&graph);
                              if (lowered.size() == 1) {
                                log.begin_plan(-1000);  // from now on planning is late
                                fail("this variant has no program");
                              }
                              return CompiledStep{.graph = graph, .plan = std::move(plan)};
                            }};
  const CompiledStep found = search_plan(request);
  CHECK(!log.overtime().empty());
  CHECK(!found.plan.stages.empty());
  REQUIRE(lowered.size() > 1);
  CHECK(lowered.back() != lowered.front());
}

TEST_CASE("parallel items go on from their caller's work, which grows as on two cores") {
  for (const int threads : {1, 3}) {
    ThreadTeam team(threads);
    const WorkWatch watch;
    spend_work(1);
    std::vector<double> seen(5);
    parallel_work(team, std::ssize(seen), [&](std::int64_t n) {
      spend_work(static_cast<double>(n));
      seen[n] = watch.seconds();
    });
    for (std::size_t n = 0; n < seen.size(); ++n)
      CHECK(seen[n] == doctest::Approx(1 + static_cast<double>(n)));
    CHECK(watch.seconds() == doctest::Approx(1 + (0 + 1 + 2 + 3 + 4) / 2));
    const WorkWatch longest;
    parallel_work(team, 2, [](std::int64_t n) { spend_work(n == 0 ? 3 : 0.5); });
    CHECK(longest.seconds() == doctest::Approx(3));
  }
}

}  // namespace planning_work_test
