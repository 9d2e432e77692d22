// Plans of files and of caches, and clusters: what is accepted runs, and computes what one device
// computes.
#include <alpa/alpa.h>
#include "src/base/json.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "fuzz/harness.h"
#include "src/plan/cost/cost_model.h"
#include "support/captured_stderr.h"
#include "support/temporary_file.h"

namespace alpa::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr int kMicroBatches = 2, kDevices = 4;

/// Two residual layers with normalisation, on odd sizes, in f64.
TrainingStep step_in_layers() {
  return training_step(
      {{"x", {f64, {12, 6}}}, {"y", {f64, {12, 5}}}},
      [](const Batch& b) {
        Value h = nn::Dense(6)(b["x"]);
        h = mark_pipeline_boundary(h + nn::Dense(6)(tanh(nn::Dense(10)(h))));
        h = nn::LayerNorm()(h);
        return nn::mean_squared_error(nn::Dense(5)(relu(h)), b["y"]);
      },
      optim::Adam{});
}

/// Two losses, then all parameters after the two steps.
std::vector<double> outcome_of(const Executable& executable) {
  const std::map<std::string, Array> batch = {{"x", linear_dataset(12, 6, 1).x.cast(f64)},
                                              {"y", linear_dataset(12, 5, 2).x.cast(f64)}};
  TrainState state = executable.init(3);
  std::vector<double> outcome;
  for (int step = 0; step < 2; ++step) outcome.push_back(executable.run(state, batch).loss());
  for (const DistributedArray& parameter : state.parameters())
    for (const double value : parameter.to_host().to_doubles()) outcome.push_back(value);
  return outcome;
}

/// Throws std::logic_error unless the executable computes what one device computes.
void check_outcome(const Executable& executable) {
  static const std::vector<double> expected = outcome_of(
      parallelize(step_in_layers(), Serial{.num_micro_batches = kMicroBatches}, Cluster::local(1)));
  constexpr double kTolerance = 1e-6;  // Adam divides by roots of small numbers
  const std::vector<double> found = outcome_of(executable);
  if (found.size() != expected.size()) throw std::logic_error("another number of parameters");
  for (std::size_t i = 0; i < found.size(); ++i)
    if (!(std::abs(found[i] - expected[i]) <= kTolerance))
      throw std::logic_error(fmt::format("number {} is {}, not {}", i, found[i], expected[i]));
}

void run_file(const Method& method, const std::string& text) {
  const testing::TemporaryFile file("fuzz_run.json", text);
  accepts([&] {
    check_outcome(load_plan(step_in_layers(), method, Cluster::local(kDevices), file.path()));
  });
}

PipeshardParallel stages(ScheduleKind schedule) {
  return {.num_micro_batches = kMicroBatches, .stages = UniformStages{2}, .schedule = schedule};
}

/// A folder of kept plans, with one of `step_in_layers`.
class Cache {
 public:
  Cache() {
    fs::remove_all(kFolder);
    plan_only(step_in_layers(), method(), Cluster::local(kDevices));
    file_ = fs::directory_iterator(kFolder)->path();
    std::ifstream file(file_);
    kept_ = std::string(std::istreambuf_iterator<char>(file), {});
  }
  ~Cache() { fs::remove_all(kFolder); }

  static ShardParallel method() {
    return {.num_micro_batches = kMicroBatches, .plan_cache_dir = kFolder};
  }
  const std::string& kept() const { return kept_; }
  std::string plan() const { return nlohmann::json::parse(kept_)["plan"]; }
  void put(const std::string& entry) const { std::ofstream(file_, std::ios::binary) << entry; }
  /// The entry with another plan.
  std::string with_plan(const std::string& plan) const {
    nlohmann::json entry = nlohmann::json::parse(kept_);
    entry["plan"] = plan;
    return entry.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

 private:
  static constexpr const char* kFolder = "fuzz_plan_cache";
  fs::path file_;
  std::string kept_;
};

const Cache& cache() {
  static const Cache once;
  return once;
}

}  // namespace

int fuzz_plan_run(const std::uint8_t* data, std::size_t size) {
  run_file(ShardParallel{.num_micro_batches = kMicroBatches}, input_text(data, size));
  return 0;
}

std::vector<std::string> plan_run_seeds() {
  std::vector<std::string> seeds;
  const Method methods[] = {
      DataParallel{.num_micro_batches = kMicroBatches},
      Zero3Parallel{.num_micro_batches = kMicroBatches},
      ShardParallel{.num_micro_batches = kMicroBatches, .mesh_shape = {2, 2}},
      ShardParallel{.num_micro_batches = kMicroBatches, .batch_mesh_axis = 0}};
  for (const Method& method : methods)
    seeds.push_back(to_json(plan_only(step_in_layers(), method, Cluster::local(kDevices))));
  return seeds;
}

int fuzz_stages_run(const std::uint8_t* data, std::size_t size) {
  run_file(stages(ScheduleKind::one_f_one_b), input_text(data, size));
  return 0;
}

std::vector<std::string> stages_run_seeds() {
  std::vector<std::string> seeds;
  for (const ScheduleKind schedule :
       {ScheduleKind::one_f_one_b, ScheduleKind::gpipe, ScheduleKind::zero_bubble})
    seeds.push_back(
        to_json(plan_only(step_in_layers(), stages(schedule), Cluster::local(kDevices))));
  return seeds;
}

int fuzz_kept_plan(const std::uint8_t* data, std::size_t size) {
  const std::string text = input_text(data, size);
  cache().put(text.starts_with("{\"key\"") ? text : cache().with_plan(text));
  std::string told;
  const bool ran = accepts([&] {
    const testing::CapturedStderr captured("fuzz_kept_plan_stderr");
    check_outcome(parallelize(step_in_layers(), Cache::method(), Cluster::local(kDevices)));
    told = captured.text();
  });
  if (!ran) throw std::logic_error("a kept plan that ends the run");
  if (std::count(told.begin(), told.end(), '\n') > 1 || told.size() > 1000)
    throw std::logic_error("more than a line on a kept plan: " + told.substr(0, 300));
  return 0;
}

std::vector<std::string> kept_plan_seeds() { return {cache().kept(), cache().plan()}; }

int fuzz_planned_cluster(const std::uint8_t* data, std::size_t size) {
  accepts([&] {
    const Cluster cluster = Cluster::from_json(input_text(data, size), "cluster.json");
    if (cluster.num_devices() > 8) return;
    const CompiledStep planned =
        plan_only(step_in_layers(),
                  ShardParallel{.num_micro_batches = kMicroBatches, .solver_seconds = 2}, cluster);
    verify(planned.plan.sharding(), planned.graph);
    explain(planned, cluster, Detail::full);
    plan_only(step_in_layers(),
              PipeshardParallel{
                  .num_micro_batches = kMicroBatches, .stages = AutoStages{}, .solver_seconds = 2},
              cluster);
  });
  return 0;
}

std::vector<std::string> planned_cluster_seeds() {
  std::vector<std::string> seeds = cluster_seeds();
  Cluster measured = Cluster::local(4);
  measured.device.measured.products[f32] = {{16, 64}, {1e9, 2e9, 2e9, 3e9, 2e9, 3e9, 3e9, 5e9}};
  measured.device.measured.loop_bytes = {1024, 1048576};
  measured.device.measured.loop_bytes_per_second = {1e9, 8e9};
  seeds.push_back(measured.to_json());
  return seeds;
}

}  // namespace alpa::fuzz
