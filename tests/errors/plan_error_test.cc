// Mistakes in methods, clusters, budgets, plan and cluster files (contest files:
// tests/ilp/contest_test.cc).
#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>

#include "errors/small_model.h"
#include "support/error_text.h"

namespace plan_error_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

std::string planning_error(const Method& method, int devices = 2) {
  return error_of([&] { plan_only(small_step(), method, Cluster::local(devices)); });
}

/// A file that vanishes at the end of the test.
class TemporaryFile {
 public:
  TemporaryFile(std::string path, const std::string& text) : path_(std::move(path)) {
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string loading_error(const std::string& text) {
  const TemporaryFile file("plan_error_test.json", text);
  return error_of(
      [&] { load_plan(small_step(), ShardParallel{}, Cluster::local(2), file.path()); });
}

/// Whether a method takes options of stages.
template <class Method>
constexpr bool kTakesLayers = requires {
  Method{.layers = AutoLayers{}};
};
template <class Method>
constexpr bool kTakesStages = requires {
  Method{.stages = AutoStages{}};
};
template <class Method>
constexpr bool kTakesSchedule = requires {
  Method{.schedule = ScheduleKind::gpipe};
};
template <class Method>
constexpr bool kChoosesMicroBatches = requires {
  Method{.num_micro_batches = kAutoMicroBatches};
};

}  // namespace

TEST_CASE("options of stages are those of PipeshardParallel alone, which the compiler says") {
  using Pipe = PipeshardParallel;
  static_assert(kTakesLayers<Pipe> && !kTakesLayers<ShardParallel> && !kTakesLayers<Serial>);
  static_assert(kTakesStages<Pipe> && !kTakesStages<ShardParallel> && !kTakesStages<DataParallel>);
  static_assert(kTakesSchedule<Pipe> && !kTakesSchedule<ShardParallel>);
  static_assert(kChoosesMicroBatches<Pipe> && !kChoosesMicroBatches<ShardParallel>);
  const Pipe usual;
  CHECK(usual.num_micro_batches == 1);
  CHECK(std::holds_alternative<ManualLayers>(usual.layers));
  CHECK(std::get<UniformStages>(usual.stages).count == 2);
  CHECK(usual.schedule == ScheduleKind::one_f_one_b);
  CHECK(planning_error(Pipe{.num_micro_batches = 0}) ==
        "parallelize: 0 micro-batches; give at least 1");
}

TEST_CASE("options that make no sense") {
  CHECK(planning_error(ShardParallel{.num_micro_batches = 5}) ==
        "5 micro-batches do not divide the batch of 12 (\"x\" is f32[12, 6]); choose a divisor of "
        "12");
  CHECK(planning_error(ShardParallel{.num_micro_batches = 0}) ==
        "parallelize: 0 micro-batches; give at least 1");
  CHECK(planning_error(ShardParallel{.solver_seconds = 0}) ==
        "parallelize: solver_seconds is 0; give more than 0");
  CHECK(planning_error(ShardParallel{.relative_gap = 1}) ==
        "parallelize: relative_gap is 1; give at least 0 and less than 1");
  CHECK(planning_error(ShardParallel{.memory_budget_bytes = -1}) ==
        "parallelize: a memory budget of -1 bytes; give more than 0");
  CHECK(error_of([] { parse_method("magic"); }) ==
        "\"magic\" is not a parallel method; the methods are serial, data, zero2, zero3, shard, "
        "pipeline");
}

TEST_CASE("devices and meshes that don't fit") {
  CHECK(error_of([] { Cluster::local(0); }) == "Cluster::local: 0 devices; ask for at least 1");
  CHECK(planning_error(ShardParallel{.mesh_shape = {2, 4}}, 6) ==
        "mesh shape 2x4: the cluster has 6 devices (1 hosts of 6), fewer than the mesh needs");
  CHECK(planning_error(ShardParallel{.batch_mesh_axis = 2}, 6) ==
        "parallelize: batch_mesh_axis is 2, but no mesh of 6 devices has that many axes");
  CHECK(planning_error(ShardParallel{.mesh_shape = {6}, .batch_mesh_axis = 1}, 6) ==
        "batch_mesh_axis 1 on a mesh of 1 axes; give one from 0 to 0");
  CHECK(planning_error(DataParallel{.num_micro_batches = 4}, 6) ==
        "method data: the micro-batch of input \"x\" f32[3, 6] has 3 rows, "
        "too few to split over 6 devices; use a larger batch, "
        "fewer micro-batches or fewer devices, or the method \"shard\"");
  Cluster elsewhere = Cluster::local(2);
  elsewhere.backend = "tpu";
  CHECK(error_of([&] { parallelize(small_step(), ShardParallel{}, elsewhere); }) ==
        "backend \"tpu\" is unknown; known are \"cpu\" and \"cuda\"");
}

TEST_CASE("a plan of another step, for other devices, or none at all") {
  const Executable train = parallelize(small_step(), ShardParallel{}, Cluster::local(2));
  const TemporaryFile plan("plan_error_test_good.json", "");
  train.save_plan(plan.path());
  const auto error = [&](const TrainingStep& step, int devices) {
    return error_of(
        [&] { load_plan(step, ShardParallel{}, Cluster::local(devices), plan.path()); });
  };
  CHECK(error(small_step(), 4) ==
        "plan file plan_error_test_good.json: the plan is for 2 devices (mesh 2), but the cluster "
        "has 4");
  const std::string other = error(small_step(24), 2);
  CHECK(other ==
        fmt::format("plan plan_error_test_good.json: it was made for the graph {:016x} but this "
                    "one is {:016x}; model, batch, optimizer or number of micro-batches "
                    "differ, so plan again",
                    structural_hash(train.graph()), structural_hash(small_step(24).trace(1))));
  CHECK(error_of([] {
          load_plan(small_step(), ShardParallel{}, Cluster::local(2), "nowhere.json");
        }) == "plan file nowhere.json: cannot be read: No such file or directory");
  CHECK(error_of([] { load_plan(small_step(), ShardParallel{}, Cluster::local(2), "/tmp"); }) ==
        "plan file /tmp: cannot be read: it is a folder, not a file");
  CHECK(error_of([&] { train.save_plan("/nowhere/plan.json"); }) ==
        "/nowhere/plan.json: cannot be written: No such file or directory");
  CHECK(loading_error("{\"schema\": ") ==
        "plan plan_error_test.json: line 1, column 12: not valid JSON; "
        "check for a missing comma, quote or bracket just before");
}

TEST_CASE("a plan that names a device the cluster does not have") {
  std::string text =
      to_json(plan_only(small_step(), ShardParallel{}, Cluster::local(2)).plan.sharding(),
              small_step().trace(1));
  text.replace(text.find('0', text.find("\"devices\"")), 1, "2147483647");
  CHECK(
      loading_error(text) ==
      "plan file plan_error_test.json: mesh.devices[0]: found 2147483647; the cluster has devices "
      "0 to 1");
}

TEST_CASE("a malformed cluster file") {
  CHECK(error_of([] { Cluster::from_file("nowhere.json"); }) ==
        "cluster file nowhere.json: cannot be read: No such file or directory");
  CHECK(error_of([] { Cluster::from_json("{", "c.json"); }) ==
        "cluster file c.json: line 1, column 2: not valid JSON; "
        "check for a missing comma, quote or bracket just before");
  CHECK(error_of([] { Cluster::from_json("{\"hosts\": 2}", "c.json"); }) ==
        "cluster file c.json: hosts: unknown key; the keys here are: "
        "description, backend, num_hosts, devices_per_host, device, within_host, between_hosts, "
        "software");
}

TEST_CASE("a budget no plan can keep is an error that says by how much and where") {
  const std::string error = planning_error(ShardParallel{.memory_budget_bytes = 100});
  CAPTURE(error);
  CHECK(error.starts_with("method shard: no plan on a 2 mesh fits into 100 bytes per device: "));
  CHECK(error.find(" bytes are missing at ") != std::string::npos);
  CHECK(error.ends_with("; use more devices, a smaller batch or more micro-batches"));
}

}  // namespace plan_error_test
