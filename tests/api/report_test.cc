// Reports of plans, as programs ask for them.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "src/base/file.h"

namespace report_test {

using namespace alpa;
using Json = nlohmann::ordered_json;

namespace {

TrainingStep mlp_step() {
  const nn::Sequential model{nn::Dense(256), nn::ReLU(), nn::Dense(256), nn::ReLU(), nn::Dense(10)};
  return training_step(
      {{"x", {f32, {32, 64}}}, {"y", {f32, {32, 10}}}},
      [=](const Batch& b) { return mean(square(model(b["x"]) - b["y"])); }, optim::Adam{});
}

/// The JSON that the page holds.
Json numbers_of(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"numbers\">";
  const std::size_t from = page.find(begin);
  REQUIRE(from != page.npos);
  return Json::parse(
      page.substr(from + begin.size(), page.find("</script>", from) - from - begin.size()));
}

double sum_of_times(const Json& time) {
  return time["compute"].get<double>() + time["memory"].get<double>() +
         time["communication"].get<double>();
}

}  // namespace

TEST_CASE("the numbers of a report are the plan's") {
  const Cluster cluster = Cluster::named("dgx-a100");
  for (const Method& method :
       {Method(ShardParallel{}),
        Method(PipeshardParallel{
            .num_micro_batches = 4, .layers = AutoLayers{3}, .stages = UniformStages{2}})}) {
    const CompiledStep planned = plan_only(mlp_step(), method, cluster);
    const Json numbers = numbers_of(report(planned, cluster));
    CHECK(numbers["seconds"].get<double>() == planned.plan.cost.objective_seconds);
    CHECK(numbers["memory_bytes"].get<std::int64_t>() == planned.memory_bytes);
    CHECK(numbers["proof"].get<std::string>() == proof_text(planned.plan));
    CHECK(numbers["method"].get<std::string>() == planned.plan.method);
    CHECK(numbers["devices"].get<int>() == 8);
    REQUIRE(numbers["stages"].size() == planned.plan.stages.size());
    CHECK(numbers.contains("timeline") == (planned.plan.stages.size() > 1));
    for (std::size_t s = 0; s < planned.plan.stages.size(); ++s) {
      const PlanCost& cost = planned.plan.stages[s].plan.cost;
      CHECK(sum_of_times(numbers["time"][s]) == doctest::Approx(cost.objective_seconds));
      CHECK(numbers["time"][s]["communication"].get<double>() ==
            doctest::Approx(cost.communication_seconds));
      CHECK(numbers["stages"][s]["memory"]["total"].get<std::int64_t>() ==
            planned.plan.stages[s].memory.total());
    }
  }
}

TEST_CASE("an operator of the program is in a report by its name, with the FLOPs it says") {
  const CustomOp norm = define_op(
      {.name = "tests.reported",
       .dims = "... -> ...",
       .flops = [](const auto& in,
                   const Attributes&) { return 7.0 * static_cast<double>(in[0].elements()); },
       .gradient = [](const GradientCall& call) { return Values{call.result_gradients[0]}; },
       .cpu = [](const OpCall&) {}});
  const TrainingStep step = training_step(
      {{"x", {f32, {32, 64}}}},
      [=](const Batch& b) { return mean(square(norm({nn::Dense(256)(b["x"])})[0])); },
      optim::Sgd{.learning_rate = 0.1});
  const Cluster cluster = Cluster::named("dgx-a100");
  const Json numbers = numbers_of(report(plan_only(step, DataParallel{}, cluster), cluster));
  const Json& operators = numbers["operators"];
  const auto found = std::find_if(operators.begin(), operators.end(), [](const Json& row) {
    return row["operator"].get<std::string>() == "tests.reported";
  });
  REQUIRE(found != operators.end());
  CHECK((*found)["name"].get<std::string>() == "tests.reported");
  CHECK((*found)["flops"].get<double>() == 7.0 * 32 / 8 * 256);
}

TEST_CASE("a report says what layouts chosen by hand cost, on all meshes") {
  const Cluster cluster = Cluster::named("dgx-a100");
  const CompiledStep best = plan_only(mlp_step(), ShardParallel{}, cluster),
                     data = plan_only(mlp_step(), DataParallel{}, cluster);
  const Json layouts = numbers_of(report(best, cluster)).at("hand_made");
  std::set<std::string> meshes;
  double of_data = 0;
  for (const Json& layout : layouts) {
    const double seconds = layout["seconds"].get<double>(), more = layout["more"].get<double>();
    meshes.insert(layout["mesh"].get<std::string>());
    CHECK(seconds >= best.plan.cost.lower_bound_seconds * (1 - 1e-9));
    CHECK(more == doctest::Approx(seconds / best.plan.cost.objective_seconds - 1));
    CHECK(layout["fits"].get<bool>());
    const std::string uses = layout["uses"].get<std::string>();
    if (uses.find("data") != uses.npos && uses.find("zero") == uses.npos &&
        uses.find("tensor") == uses.npos)
      of_data = of_data > 0 ? std::min(of_data, seconds) : seconds;
  }
  CHECK(meshes == std::set<std::string>{"8", "2x4", "4x2"});
  CHECK(of_data == doctest::Approx(data.plan.cost.objective_seconds));

  const CompiledStep stages =
      plan_only(mlp_step(),
                PipeshardParallel{
                    .num_micro_batches = 4, .layers = AutoLayers{3}, .stages = UniformStages{2}},
                cluster);
  const Json numbers = numbers_of(report(stages, cluster));
  std::set<int> of_stages;
  for (const Json& layout : numbers.at("hand_made")) of_stages.insert(layout["stage"].get<int>());
  CHECK(of_stages == std::set<int>{0, 1});
}

TEST_CASE(
    "the communication of a report is that of the plan, and the most that lives is its peak") {
  const Cluster cluster = Cluster::named("dgx-a100");
  const CompiledStep planned = plan_only(mlp_step(), DataParallel{}, cluster);
  const Json numbers = numbers_of(report(planned, cluster));
  double seconds = 0, bytes = 0;
  for (const Json& kind : numbers["communication"]["kinds"])
    seconds += kind["seconds"].get<double>(), bytes += kind["bytes"].get<double>();
  CHECK(seconds == doctest::Approx(planned.plan.cost.communication_seconds));
  double sent = 0;
  for (const auto& [kind, traffic] : planned.traffic()) sent += traffic.bytes;
  CHECK(bytes == doctest::Approx(sent));
  double most = 0, parameters = 0;
  for (const Json& point : numbers["memory"][0]["points"]) {
    double sum = 0;
    for (const Json& of : point) sum += of.get<double>();
    most = std::max(most, sum);
    parameters = point[0].get<double>();
  }
  CHECK(parameters == 4 * (64 * 256 + 256 + 256 * 256 + 256 + 256 * 10 + 10));
  CHECK(most <= planned.memory_bytes);
  CHECK(most > 0.3 * static_cast<double>(planned.memory_bytes));
}

TEST_CASE("equal layers of a report are folded, and a large model's page stays small") {
  nn::Sequential model;
  for (int i = 0; i < 24; ++i) model.add(nn::Dense(64));
  const TrainingStep step = training_step(
      {{"x", {f32, {16, 64}}}}, [=](const Batch& b) { return mean(square(model(b["x"]))); },
      optim::Sgd{});
  const Cluster cluster = Cluster::named("dgx-a100");
  const std::string page = report(plan_only(step, DataParallel{}, cluster), cluster);
  CHECK(page.size() < 200'000);
  const Json layers = numbers_of(page).at("sharding");
  CHECK(layers.size() <= 4);
  int count = 0;
  for (const Json& layer : layers) count += layer["count"].get<int>();
  CHECK(count == 24);
  CHECK(page.find("<script src") == page.npos);
  CHECK(page.find("http") == page.npos);
}

TEST_CASE("a report of a run has its measured timeline, and one before any step has none") {
  const std::string path = "report_test.html";
  PipeshardParallel pipeline{
      .num_micro_batches = 2, .layers = AutoLayers{2}, .stages = UniformStages{2}};
  pipeline.executor.record_times = true;
  const Executable step = parallelize(mlp_step(), pipeline, Cluster::local(2));
  step.report(path);
  CHECK_FALSE(numbers_of(read_file(path, {"report", 1 << 24})).contains("measured"));
  TrainState state = step.init(1);
  step.run(state,
           {{"x", Array(TensorType{f32, {32, 64}})}, {"y", Array(TensorType{f32, {32, 10}})}})
      .loss();
  step.report(path);
  const Json measured = numbers_of(read_file(path, {"report", 1 << 24})).at("measured");
  std::filesystem::remove(path);
  CHECK(measured["meshes"].size() == 2);
  for (const Json& runs : measured["meshes"]) CHECK(runs.size() >= 5);  // F, B of two, apply
  CHECK(measured["seconds"].get<double>() > 0);
}

TEST_CASE("a trace of something else is refused by name") {
  const Cluster cluster = Cluster::local(1);
  const CompiledStep planned = plan_only(mlp_step(), Serial{}, cluster);
  CHECK_THROWS_WITH_AS(report(planned, cluster, "{}"),
                       "trace of the step: no traceEvents; expected a trace of a step, as --trace "
                       "or Executable::trace writes it",
                       Error);
  CHECK_THROWS_WITH_AS(report(planned, cluster, "{\"traceEvents\": [3, {\"ph\": \"X\"}]}"),
                       "trace of the step: no measured runs; expected a trace of a step, as "
                       "--trace or Executable::trace writes it",
                       Error);
}

}  // namespace report_test
