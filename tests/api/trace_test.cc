// Traces of steps: what ran when, beside what was predicted.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "src/runtime/executor.h"
#include "support/error_text.h"

namespace trace_test {

using namespace alpa;
using alpa::testing::error_of;

namespace {

Executable executable_of(Method method, int devices, bool record_times = true) {
  const TrainingStep step = training_step(
      {{"x", {f32, {8, 12}}}},
      [](const Batch& b) {
        Value h = mark_pipeline_boundary(relu(nn::Dense(20)(b["x"])));
        h = mark_pipeline_boundary(relu(nn::Dense(16)(h)));
        return mean(square(nn::Dense(12)(h)));
      },
      optim::Adam{});
  std::visit([&](auto& options) { options.executor.record_times = record_times; }, method);
  return parallelize(step, method, Cluster::local(devices));
}

const std::map<std::string, Array> batch{{"x", Array(std::vector<float>(8 * 12, 0.5F), {8, 12})}};

/// Events of a lane by device.
std::map<int, std::vector<nlohmann::json>> events(const std::string& trace, int lane) {
  std::map<int, std::vector<nlohmann::json>> found;
  const nlohmann::json file = nlohmann::json::parse(trace);
  for (const nlohmann::json& event : file["traceEvents"])
    if (event["ph"] == "X" && event["tid"] == lane) found[event["pid"]].push_back(event);
  return found;
}

std::string names(const std::vector<nlohmann::json>& events) {
  std::string names;
  for (const nlohmann::json& event : events) names += event["name"].get<std::string>() + " ";
  return names;
}

}  // namespace

TEST_CASE("a trace has what was predicted and what ran, by device, stage and micro-batch") {
  const Executable train =
      executable_of(PipeshardParallel{.num_micro_batches = 2, .stages = UniformStages{3}}, 3);
  CHECK(error_of([&] { train.trace(); }) == "trace: no step has run yet; run one first");
  TrainState state = train.init(1);
  for (int n = 0; n < 2; ++n) train.run(state, batch);
  const std::string trace = train.trace();
  auto predicted = events(trace, 0), runs = events(trace, 1);
  CHECK(names(predicted[0]) == "F0 F1 B0 B1 apply ");
  CHECK(names(predicted[2]) == "F0 B0 F1 B1 apply ");
  CHECK(names(runs[0]) == "forward 0 forward 1 backward 0 backward 1 apply 0 ");
  CHECK(names(runs[2]) == "forward 0 backward 0 forward 1 backward 1 apply 0 ");
  CHECK(runs[1][1]["args"]["stage"] == 1);
  CHECK(runs[1][1]["args"]["micro_batch"] == 1);
  CHECK(runs[0][0]["dur"] > 0);

  // Every instruction is in one lane, inside of its run, after the one before.
  for (int device = 0; device < 3; ++device) {
    std::vector<nlohmann::json> all;
    for (int lane = 2; lane <= 5; ++lane) {
      const std::vector<nlohmann::json> own = events(trace, lane)[device];
      all.insert(all.end(), own.begin(), own.end());
    }
    std::size_t expected = 0;
    const lower::DeviceProgram& program = train.executor().device_program(device);
    for (const lower::ListRun& run : program.schedule)
      expected += program.lists[run.list].instructions.size();
    CHECK(all.size() == expected);
    std::sort(all.begin(), all.end(),
              [](const auto& a, const auto& b) { return a["ts"] < b["ts"]; });
    for (std::size_t i = 1; i < all.size(); ++i)
      CHECK(all[i]["ts"].get<double>() + 1e-3 >=
            all[i - 1]["ts"].get<double>() + all[i - 1]["dur"].get<double>());
  }
  for (int device : {0, 1, 2}) CHECK(!events(trace, 4)[device].empty());  // transfers
  CHECK(train.trace_summary().find(" measured, ") != std::string::npos);
  CHECK(train.trace_summary().find("\nslowest     stage ") != std::string::npos);
}

TEST_CASE("steps without stages have traces, too; without recorded times there is none") {
  const Executable train = executable_of(DataParallel{.num_micro_batches = 2}, 2);
  TrainState state = train.init(1);
  train.run(state, batch);
  const std::string trace = train.trace();
  CHECK(names(events(trace, 0)[1]) == "F0 B0 F1 B1 apply ");
  CHECK(names(events(trace, 1)[1]) == "accumulate 0 accumulate 1 apply 0 ");
  CHECK(events(trace, 3)[0].size() + events(trace, 6)[0].size() > 0);  // communication

  const Executable plain = executable_of(Serial{}, 1, false);
  CHECK(error_of([&] { plain.trace(); }) ==
        "no times of instructions were recorded; set ExecutorOptions::record_times");
}

}  // namespace trace_test
