// Planning keeps the time that it is given, or says what took how long.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

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

/// Keeps the planner busy for so long, once.
ProgressCallback slow_callback(double seconds) {
  return [seconds, done = false](const PlanningProgress&) mutable {
    if (std::exchange(done, true)) return;
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
  CHECK(without_figures(error_of([&] { plan_only(step(), method, Cluster::local(4)); })) ==
        "solver_seconds is 0.05, but planning took # s: # s tracing, # s searching; raise "
        "solver_seconds, or give a smaller graph (fewer layers)");
}

TEST_CASE("so do stages" * doctest::skip(kIsSlowBuild)) {
  const PipeshardParallel method{
      .layers = AutoLayers{2}, .solver_seconds = 0.05, .progress = slow_callback(kTooLong)};
  CHECK(without_figures(error_of([&] { plan_only(step(), method, Cluster::local(4)); })) ==
        "method pipeline: no plan on a 2 mesh was found in # seconds; allow more seconds; "
        "solver_seconds is 0.05, but planning took # s: # s tracing, # s since then; raise "
        "solver_seconds, or give a smaller graph (fewer layers)");
}

TEST_CASE("time that the limit allows is no error") {
  const ShardParallel method{.solver_seconds = 2, .progress = slow_callback(1.2)};
  CHECK(plan_only(step(), method, Cluster::local(4)).memory_bytes > 0);
}

}  // namespace planning_time_test
