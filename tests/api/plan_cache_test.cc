// Plans kept on disk: taken without a search while nothing that matters has changed.
#include <alpa/alpa.h>
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "support/captured_stderr.h"
#include "support/error_text.h"
#include "support/program.h"
#include "support/temporary_file.h"

namespace plan_cache_test {

using namespace alpa;

namespace {

namespace fs = std::filesystem;

TrainingStep step_of(std::int64_t rows = 16, std::int64_t width = 24) {
  return training_step(
      {{"x", {f32, {rows, 20}}}},
      [width](const Batch& b) {
        const Value h = mark_pipeline_boundary(tanh(nn::Dense(width)(b["x"])));
        return mean(square(nn::Dense(12)(h)));
      },
      optim::Adam{});
}

/// A folder that ends with the test.
struct Folder {
  static constexpr const char* kPath = "plan_cache_test_folder";
  std::string path = kPath;
  Folder() { fs::remove_all(path); }
  ~Folder() { fs::remove_all(path); }
  int files() const {
    int count = 0;
    if (fs::exists(path))
      for ([[maybe_unused]] const auto& entry : fs::directory_iterator(path)) ++count;
    return count;
  }
};

std::string content_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The plan, and whether it was searched for: only a search tells its progress.
std::pair<std::string, bool> plan(const TrainingStep& step, Method method, const Cluster& cluster,
                                  const std::string& folder) {
  bool searched = false;
  std::visit(
      [&](auto& options) {
        options.plan_cache_dir = folder;
        options.progress = [&](const PlanningProgress&) { searched = true; };
      },
      method);
  const CompiledStep planned = plan_only(step, method, cluster);
  return {to_string(planned) + to_json(planned), searched};
}

constexpr const char* kPlanOfVersion1 = "plan_cache_test_version1.json";

/// A step with an operator of the program. A process has one definition of it.
TrainingStep own_step(int version, const char* dims = "... -> ...") {
  static const CustomOp copy = define_op(
      {.name = "tests.cached",
       .dims = dims,
       .gradient = [](const GradientCall& call) { return Values{call.result_gradients[0]}; },
       .cpu =
           [](const OpCall& call) {
             for (std::int64_t i = 0; i < call.results[0].type.elements(); ++i)
               call.results[0].set(i, call.operands[0].get(i));
           },
       .version = version});
  return training_step(
      {{"x", {f32, {16, 20}}}},
      [](const Batch& b) { return mean(square(copy({nn::Dense(12)(b["x"])})[0])); }, optim::Adam{});
}

}  // namespace

TEST_CASE("plans a step with version 1 of an operator" * doctest::skip()) {
  plan(own_step(1), ShardParallel{}, Cluster::local(2), Folder::kPath);
  std::ofstream(kPlanOfVersion1) << to_json(
      plan_only(own_step(1), ShardParallel{}, Cluster::local(2)));
}
TEST_CASE("plans a step with other dims of an operator" * doctest::skip()) {
  plan(own_step(2, "...c! -> ...c!"), ShardParallel{}, Cluster::local(2), Folder::kPath);
}

TEST_CASE("no version of an operator, and no dims, take the plan of another") {
  const Folder folder;
  const testing::TemporaryFile other(kPlanOfVersion1, "");
  for (const char* process : {"plans a step with version 1 of an operator",
                              "plans a step with other dims of an operator"})
    CHECK(testing::run_skipped_case(process).status == 0);
  CHECK(folder.files() == 2);
  CHECK(plan(own_step(2), ShardParallel{}, Cluster::local(2), folder.path).second);
  CHECK(folder.files() == 3);
  CHECK(!plan(own_step(2), ShardParallel{}, Cluster::local(2), folder.path).second);
  CHECK(testing::error_of([&] {
          load_plan(own_step(2), ShardParallel{}, Cluster::local(2), other.path());
        }).starts_with("plan plan_cache_test_version1.json: it was made for the graph "));
}

TEST_CASE("a plan is searched for once, and again when anything that matters has changed") {
  const PipeshardParallel pipeline{.num_micro_batches = 4, .stages = AutoStages{}};
  for (const Method& method : {Method(ShardParallel{}), Method(pipeline)}) {
    const Folder folder;
    const Cluster cluster = Cluster::local(4);
    const auto [first, searched] = plan(step_of(), method, cluster, folder.path);
    CHECK(searched);
    CHECK(folder.files() == 1);
    const auto [second, again] = plan(step_of(), method, cluster, folder.path);
    CHECK(!again);
    CHECK(second == first);

    int files = 1;
    const auto searches = [&](const TrainingStep& step, const Method& other, const Cluster& on) {
      CHECK(plan(step, other, on, folder.path).second);
      CHECK(folder.files() == ++files);
    };
    searches(step_of(32), method, cluster);
    searches(step_of(16, 25), method, cluster);
    searches(step_of(), method, Cluster::local(2));
    Cluster faster = cluster;
    faster.within_host.alpha_seconds /= 2;
    searches(step_of(), method, faster);
    const auto changed = [&](const std::function<void(ShardParallel&)>& change) {
      ShardParallel options;
      change(options);
      Method other = method;
      std::visit(
          [&](auto& own) {
            own.memory_budget_bytes = options.memory_budget_bytes;
            own.allow_all_to_all = options.allow_all_to_all;
            own.mesh_shape = options.mesh_shape;
            own.executor = options.executor;
          },
          other);
      return other;
    };
    searches(step_of(), changed([](auto& o) { o.memory_budget_bytes = 1 << 20; }), cluster);
    searches(step_of(), changed([](auto& o) { o.allow_all_to_all = false; }), cluster);
    searches(step_of(), changed([](auto& o) { o.executor.threads_per_device = 3; }), cluster);
    CHECK(!plan(step_of(), method, cluster, folder.path).second);
  }
  const Folder folder;
  PipeshardParallel stages = pipeline;
  plan(step_of(), stages, Cluster::local(4), folder.path);
  stages.schedule = ScheduleKind::gpipe;
  plan(step_of(), stages, Cluster::local(4), folder.path);
  stages.stages = AutoStages{.submeshes = SubmeshSizes::powers_of_two};
  plan(step_of(), stages, Cluster::local(4), folder.path);
  stages.num_micro_batches = 2;
  plan(step_of(), stages, Cluster::local(4), folder.path);
  CHECK(folder.files() == 4);
}

TEST_CASE("whatever is in a kept plan's place is told of, and replaced, or else left alone") {
  const Folder folder;
  const Cluster cluster = Cluster::local(2);
  const std::string first = plan(step_of(), ShardParallel{}, cluster, folder.path).first;
  const fs::path file = fs::directory_iterator(folder.path)->path();
  const std::string told = "alpa: plan cache: kept plan " + file.string() + ": ",
                    again = "; the step is planned again\n";
  const auto stderr_of_plan = [&] {
    const testing::CapturedStderr captured("plan_cache_test_stderr");
    const auto [text, searched] = plan(step_of(), ShardParallel{}, cluster, folder.path);
    CHECK(searched);
    CHECK(text == first);
    return captured.text();
  };
  const auto is_replaced = [&] {
    CHECK(fs::is_regular_file(fs::symlink_status(file)));
    CHECK(!plan(step_of(), ShardParallel{}, cluster, folder.path).second);
    fs::remove(file);
  };
  fs::remove(file);
  fs::create_symlink(file.filename(), file);
  CHECK(stderr_of_plan() == told + "cannot be read: Too many levels of symbolic links" + again);
  is_replaced();
  fs::create_symlink("/dev/zero", file);
  CHECK(stderr_of_plan() == told + "cannot be read: it is a device, not a file" + again);
  is_replaced();
  REQUIRE(mkfifo(file.c_str(), 0600) == 0);
  CHECK(stderr_of_plan() == told + "cannot be read: it is a pipe, not a file" + again);
  is_replaced();
  fs::create_directory(file);
  CHECK(stderr_of_plan() == told + "cannot be read: it is a folder, not a file" + again +
                                "alpa: plan cache: " + file.string() +
                                ": cannot be written: Is a directory; this plan is not kept\n");
  CHECK(fs::is_directory(file));
}

TEST_CASE("a kept plan that no longer holds is told of, and replaced") {
  const Folder folder;
  const Cluster cluster = Cluster::local(2);
  const std::string first = plan(step_of(), ShardParallel{}, cluster, folder.path).first;
  const fs::path file = fs::directory_iterator(folder.path)->path();
  const std::string kept = content_of(file);
  std::string other = kept;
  other.replace(other.find("alpa.plan/2"), 11, "alpa.plan/0");
  std::ofstream(file) << other;
  std::string told;
  {
    const testing::CapturedStderr captured("plan_cache_test_stderr");
    CHECK(plan(step_of(), ShardParallel{}, cluster, folder.path).first == first);
    told = captured.text();
  }
  CHECK(told == "alpa: plan cache: plan " + file.string() +
                    ": schema \"alpa.plan/0\"; this version reads \"alpa.plan/2\"; plan again; the "
                    "step is planned again\n");
  CHECK(content_of(file) == kept);
}

TEST_CASE("a folder that cannot be made keeps nothing, and the step is planned") {
  const testing::TemporaryFile file("plan_cache_test_file", "");
  const testing::CapturedStderr captured("plan_cache_test_stderr");
  CHECK(plan(step_of(), ShardParallel{}, Cluster::local(2), file.path()).second);
  CHECK(captured.text() ==
        "alpa: plan cache: plan_cache_test_file: cannot be made: Not a directory; this plan is not "
        "kept\n");
}

TEST_CASE("a kept plan that is damaged, or of another key, is searched for again") {
  const Folder folder;
  const Cluster cluster = Cluster::local(2);
  const std::string first = plan(step_of(), ShardParallel{}, cluster, folder.path).first;
  const fs::path file = fs::directory_iterator(folder.path)->path();
  for (const char* damaged : {"", "{", "[]", R"({"key": "another", "plan": "{}"})"}) {
    std::ofstream(file) << damaged;
    const auto [again, searched] = plan(step_of(), ShardParallel{}, cluster, folder.path);
    CHECK(searched);
    CHECK(again == first);
    CHECK(folder.files() == 1);
    CHECK(!plan(step_of(), ShardParallel{}, cluster, folder.path).second);
  }
}

}  // namespace plan_cache_test
