// Plans from files are checked as planned ones are: devices and memory.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>

#include "support/error_text.h"

namespace loaded_plan_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

TrainingStep wide_step() {
  nn::Sequential mlp;
  for (int i = 0; i < 3; ++i) mlp.add(nn::Dense(128)).add(nn::ReLU());
  mlp.add(nn::Dense(16));
  const TensorType data{f32, {32, 16}};
  return training_step(
      {{"x", data}, {"y", data}},
      [mlp](const Batch& b) { return mean(square(mlp(b["x"]) - b["y"])); }, optim::Adam{});
}

/// The file of a plan, which vanishes at the end of the test.
struct PlanFile {
  std::string path = "loaded_plan_test.json";
  explicit PlanFile(const std::string& text) { std::ofstream(path) << text; }
  PlanFile(const CompiledStep& planned, const std::string& from = "", const std::string& to = "") {
    std::string text = to_json(planned);
    if (!from.empty()) text.replace(text.find(from), from.size(), to);
    std::ofstream(path) << text;
  }
  ~PlanFile() { std::remove(path.c_str()); }
};

std::string loading_error(const Method& method, int devices, const PlanFile& file) {
  return error_of([&] { load_plan(wide_step(), method, Cluster::local(devices), file.path); });
}

}  // namespace

TEST_CASE("a loaded plan that exceeds the memory budget is refused, one that keeps it is taken") {
  const CompiledStep planned = plan_only(wide_step(), DataParallel{}, Cluster::local(2));
  const PlanFile file(planned);
  const std::int64_t bytes = planned.memory_bytes;
  CHECK(load_plan(wide_step(), DataParallel{.memory_budget_bytes = bytes}, Cluster::local(2),
                  file.path)
            .memory_bytes() == bytes);
  CHECK(
      loading_error(DataParallel{.memory_budget_bytes = bytes / 2}, 2, file) ==
      fmt::format("plan file loaded_plan_test.json: the plan needs {} bytes per device, "
                  "{} more than the memory budget of {}; plan again within it, or raise the budget",
                  bytes, bytes - bytes / 2, bytes / 2));
}

TEST_CASE("a plan that calls itself serial has one device, or the cluster's number") {
  const PlanFile four(plan_only(wide_step(), DataParallel{}, Cluster::local(4)), "\"data\"",
                      "\"serial\"");
  CHECK(
      loading_error(Serial{}, 2, four) ==
      "plan file loaded_plan_test.json: the plan is for 4 devices (mesh 4), but the cluster has 2");
  const PlanFile one(plan_only(wide_step(), Serial{}, Cluster::local(2)));
  CHECK(load_plan(wide_step(), Serial{}, Cluster::local(2), one.path)
            .plan()
            .sharding()
            .mesh.num_devices() == 1);
}

TEST_CASE("plans in files of earlier versions are read") {
  const CompiledStep whole = plan_only(wide_step(), ShardParallel{}, Cluster::local(2));
  const PlanFile sharding(to_json(whole.plan.sharding(), whole.graph));
  CHECK(to_json(
            load_plan(wide_step(), ShardParallel{}, Cluster::local(2), sharding.path).planned()) ==
        to_json(whole));

  const PipeshardParallel method{.num_micro_batches = 2, .layers = AutoLayers{2}};
  const CompiledStep planned = plan_only(wide_step(), method, Cluster::local(2));
  const PlanFile stages(planned, "alpa.plan/2", "alpa.pipeline/1");
  CHECK(to_json(load_plan(wide_step(), method, Cluster::local(2), stages.path).planned()) ==
        to_json(planned));
  const PlanFile later(planned, "alpa.plan/2", "alpa.plan/3");
  CHECK(loading_error(method, 2, later) ==
        "plan loaded_plan_test.json: schema \"alpa.plan/3\"; this version reads \"alpa.plan/2\"; "
        "plan again");
}

}  // namespace loaded_plan_test
