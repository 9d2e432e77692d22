// Planning keeps the time that it is given, or says what took how long.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cmath>
#include <regex>

#include "src/base/processor_watch.h"
#include "support/error_text.h"

namespace planning_time_test {

using namespace alpa;
using alpa::testing::error_of;

namespace {

TrainingStep step() {
  const TensorType data{f32, {16, 8}};
  const nn::Sequential mlp{nn::Dense(24), nn::ReLU(), nn::Dense(8)};
  return training_step(
      {{"x", data}}, [mlp](const Batch& b) { return mean(square(mlp(b["x"]))); }, optim::Adam{});
}

/// Keeps the planner busy for so long, once: at first, or as soon as it has a plan.
ProgressCallback slow_callback(double seconds, bool has_plan = false) {
  return [=, done = false](const PlanningProgress& now) mutable {
    if ((has_plan && !std::isfinite(now.best_seconds)) || std::exchange(done, true)) return;
    const ProcessorWatch watch;
    while (watch.seconds() < seconds) {
    }
  };
}

/// Longer than planning may exceed its limit.
constexpr double kTooLong = kOvertimeSeconds + 0.2;

std::string without_figures(const std::string& text) {
  return std::regex_replace(text, std::regex("[0-9]+\\.[-e0-9]+ s"), "# s");
}

// A build that checks everything gives planning half a minute more, which is too long for a test.
const bool kIsSlowBuild = kOvertimeSeconds > 2;

}  // namespace

TEST_CASE("planning that takes too long says what took how long" * doctest::skip(kIsSlowBuild)) {
  const ShardParallel method{.solver_seconds = 0.05, .progress = slow_callback(kTooLong)};
  const CompiledStep planned = plan_only(step(), method, Cluster::local(4));
  CHECK(planned.memory_bytes > 0);
  CHECK(without_figures(planned.overtime).starts_with("# s tracing, # s searching, # s "));
}

TEST_CASE("an error, too, says what took how long" * doctest::skip(kIsSlowBuild)) {
  const PipeshardParallel method{
      .layers = AutoLayers{2}, .solver_seconds = 0.05, .progress = slow_callback(kTooLong)};
  CHECK(without_figures(error_of([&] { plan_only(step(), method, Cluster::local(4)); })) ==
        "method pipeline: no plan on a 2 mesh was found in # seconds; allow more seconds; "
        "solver_seconds is 0.05, but planning took # s: # s tracing, # s since then; raise "
        "solver_seconds, or give a smaller graph (fewer layers)");
}

TEST_CASE("time that the limit allows is no error") {
  const ShardParallel method{.solver_seconds = 2, .progress = slow_callback(1.2)};
  const CompiledStep planned = plan_only(step(), method, Cluster::local(4));
  CHECK(planned.memory_bytes > 0);
  CHECK(planned.overtime == "");
}

TEST_CASE("a plan that is found late is given, with what took how long" *
          doctest::skip(kIsSlowBuild)) {
  const double limit = 4;
  const ShardParallel method{.solver_seconds = limit,
                             .progress = slow_callback(limit + kTooLong + 0.2, true)};
  const CompiledStep planned = plan_only(step(), method, Cluster::local(4));
  CHECK(planned.memory_bytes > 0);
  CHECK(without_figures(planned.overtime).starts_with("# s tracing, # s searching, # s "));
}

}  // namespace planning_time_test
