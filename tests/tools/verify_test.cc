// alpa verify: a plan file is checked before it is relied on.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "api/custom_ops.h"
#include "support/program.h"
#include "support/temporary_file.h"
#include "tools/compared_step.h"
#include "tools/small_step.h"

namespace verify_test {

using namespace alpa;
using namespace alpa::testing;
using Json = nlohmann::ordered_json;

namespace {

ProgramOutput verify(const std::string& plan, std::vector<std::string> more = {}) {
  const TemporaryFile file("verify_plan.json", plan);
  more.insert(more.begin(), {"verify", file.path(), "--cluster", "dgx-a100"});
  return run_program(ALPA_TOOL, more);
}

std::string planned(const Method& method) {
  return to_json(plan_only(make_step(), method, Cluster::named("dgx-a100")));
}

const PipeshardParallel kTwoStages{
    .num_micro_batches = 4, .layers = AutoLayers{2}, .stages = UniformStages{2}};

/// What is printed about a plan that was changed in this way.
std::string mistake(const std::string& plan, const std::function<void(Json&)>& change,
                    const std::vector<std::string>& more = {}) {
  Json json = Json::parse(plan);
  change(json);
  const ProgramOutput output = verify(json.dump(), more);
  CHECK(output.status == 2);
  CHECK(output.text.find('\n') == output.text.size() - 1);
  CHECK(output.text.starts_with("alpa: plan "));
  return output.text;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Array array_of(std::vector<double> elements) {
  const auto size = static_cast<std::int64_t>(elements.size());
  return Array(elements, {size});
}

}  // namespace

TEST_CASE("plans of every method compute in f64 what one device computes") {
  PipeshardParallel interleaved = kTwoStages;
  interleaved.layers = AutoLayers{4};
  interleaved.stages = UniformStages{.count = 4, .stages_per_part = 2};
  interleaved.schedule = ScheduleKind::interleaved_one_f_one_b;
  PipeshardParallel zero_bubble = kTwoStages;
  zero_bubble.schedule = ScheduleKind::zero_bubble;
  for (const Method& method :
       {Method(Serial{}), Method(DataParallel{}), Method(Zero2Parallel{.num_micro_batches = 2}),
        Method(Zero3Parallel{}), Method(ShardParallel{.mesh_shape = {2, 4}}), Method(kTwoStages),
        Method(interleaved), Method(zero_bubble)}) {
    const ProgramOutput output = verify(planned(method));
    CAPTURE(output.text);
    CHECK(output.status == 0);
    CHECK(has(output.text, "\nlayouts "));
    CHECK(has(output.text, ": complete, and without a deadlock\n"));
    CHECK(
        has(output.text, "\none step     13 tensors in f64 at reduced extents as on one device; "));
  }
}

TEST_CASE("a large step is compared at reduced extents, a convolution's with fewer images") {
  nn::Sequential mlp{nn::Dense(8192), nn::ReLU(), nn::LayerNorm(), nn::Dense(24)};
  nn::Sequential images{nn::Conv2d(8, {3, 3}), nn::ReLU(), nn::Flatten(), nn::Dense(4)};
  const auto step_of = [](const nn::Sequential& model, const Shape& x, std::int64_t classes) {
    return training_step(
        {{"x", {f32, x}}, {"y", {f32, {x[0], classes}}}},
        [model](const Batch& b) { return mean(square(model(b["x"]) - b["y"])); }, optim::Adam{});
  };
  const TrainingStep large = step_of(mlp, {4096, 512}, 24),
                     conv = step_of(images, {1024, 9, 9, 3}, 4);
  for (const TrainingStep& step : {large, conv})
    for (const Method& method :
         {Method(ShardParallel{.mesh_shape = {2, 4}}), Method(Zero3Parallel{})}) {
      const ProgramOutput output = verify(
          to_json(plan_only(step, method, Cluster::named("dgx-a100"))), {"--most-flops", "1e8"});
      CAPTURE(output.text);
      CHECK(output.status == 0);
      CHECK(has(output.text, "tensors in f64 at reduced extents as on one device"));
    }
}

TEST_CASE("steps in mixed precision are compared with their copies in f64, too") {
  const nn::Sequential mlp{nn::Dense(64), nn::ReLU(), nn::Dense(16)};
  for (const Precision precision : {bf16_mixed, f16_mixed})
    for (const Optimizer& optimizer : {Optimizer(optim::Adam{}), Optimizer(optim::Sgd{})})
      for (const Method& method : {Method(DataParallel{}), Method(Zero3Parallel{})}) {
        const TrainingStep step =
            training_step({{"x", {f32, {32, 16}}}, {"y", {f32, {32, 16}}}},
                          [mlp](const Batch& b) { return mean(square(mlp(b["x"]) - b["y"])); },
                          optimizer, {.precision = precision});
        const ProgramOutput output =
            verify(to_json(plan_only(step, method, Cluster::named("dgx-a100"))));
        CHECK(output.status == 0);
        CHECK(has(output.text, "tensors in f64 at reduced extents as on one device"));
      }
}

TEST_CASE("a step that cannot be run is said not to be compared") {
  const ProgramOutput output = verify(planned(DataParallel{}), {"--most-flops", "1"});
  CHECK(output.status == 0);
  CHECK(has(output.text, "\none step     not compared: a step has "));
  CHECK(has(output.text, " floating-point operations; --most-flops "));
}

TEST_CASE("whatever is wrong with a plan is named") {
  const std::string zero = planned(Zero3Parallel{}), two = planned(kTwoStages);
  const auto sharding = [](Json& json, int stage = 0) -> Json& {
    return json["stages"][static_cast<std::size_t>(stage)]["plan"];
  };
  const auto nothing = [](Json&) {};
  CHECK(has(mistake(zero, [&](Json& j) { sharding(j)["nodes"][3]["strategy"] = "f7@0"; }),
            "einsum \"0/einsum\""));
  CHECK(has(mistake(zero, [&](Json& j) { sharding(j)["specs"][3] = "S0@0 P+@1"; }),
            "with the strategy \"f0@0\" leaves result 0 as S0@0, not as S0@0 P+@1"));
  CHECK(has(mistake(zero, [&](Json& j) { sharding(j)["reshards"].erase(0); }),
            " and no resharding provides it"));
  CHECK(has(mistake(zero, [&](Json& j) { sharding(j)["graph"] = "0123456789abcdef"; }),
            "it was made for the graph 0123456789abcdef but this one is "));
  CHECK(has(mistake(zero, [&](Json& j) { j["graph"] = "0123456789abcdef"; }),
            "it was made for the graph 0123456789abcdef but this one is "));
  CHECK(has(mistake(zero, [&](Json& j) { sharding(j)["cost"]["objective_seconds"] = 1.5; }),
            "stage 0 takes 1.5 s by the file, but "));
  CHECK(has(mistake(two, [&](Json& j) { j["predicted_seconds"] = 1.5; }),
            "a step takes 1.5 s by the file, but "));
  CHECK(has(mistake(two, [&](Json& j) { j["schedule"] = "gpipe2"; }), "schedule"));
  CHECK(has(mistake(two,
                    [&](Json& j) {
                      j["stages"].erase(1);
                      j["transfers"] = Json::array();
                    }),
            "layers"));
  CHECK(has(mistake(two,
                    [&](Json& j) {
                      sharding(j, 1)["mesh"]["devices"] = {0, 1, 2, 3};
                    }),
            "the plan is for 4 devices"));
  CHECK(has(mistake(two,
                    [&](Json& j) {
                      sharding(j, 1)["mesh"]["devices"] = {3, 4, 5, 6};
                    }),
            "is on device 3, which another stage uses"));
  CHECK(has(mistake(zero, nothing, {"--budget", "1000"}),
            "more than the 1000 that a device may use; plan again within them, or raise --budget"));
  CHECK(has(verify("{}").text, "alpa: plan verify_plan.json: schema is missing\n"));
}

TEST_CASE("what a stage reads is what another one gives") {
  const std::string two = planned(kTwoStages);
  const auto line_with = [](Json& json, std::size_t stage, const std::string& part) -> Json& {
    for (Json& line : json["stages"][stage]["plan"]["graph_text"])
      if (has(line.get<std::string>(), part)) return line;
    throw std::runtime_error("no line has " + part);
  };
  const auto renamed = [&](Json& json) {
    Json& line = line_with(json, 1, "kind=\"boundary\"");
    const std::string text = line.get<std::string>();
    line = text.substr(0, text.rfind(" \"")) + " \"%999\"";
  };
  CHECK(has(mistake(two, renamed), "stage 1 reads \"%999\", which no stage gives"));
}

TEST_CASE("operators that a program defines are run in parts, and a wrong rule is named") {
  const auto verify_own = [](const TrainingStep& step) {
    const CompiledStep plan = plan_only(step, DataParallel{}, Cluster::named("dgx-a100"));
    const TemporaryFile file("verify_own_plan.json", to_json(plan));
    return run_program(ALPA_TOOL, {"--operators", ALPA_OWN_OPERATORS, "verify", file.path(),
                                   "--cluster", "dgx-a100"});
  };
  const ProgramOutput right = verify_own(small_step(true));
  CHECK(right.status == 0);
  CHECK(has(right.text,
            "tests.attention, tests.attention_grad, tests.rms_norm, "
            "tests.rms_norm_grad compute in parts what they compute whole"));
  const ProgramOutput wrong = verify_own(training_step(
      {{"x", {f32, {32, 16}}}},
      [](const Batch& b) {
        return mean(square(nn::Dense(16)(b["x"]) - wrong_softmax()({b["x"]})[0]));
      },
      optim::Sgd{}));
  CHECK(wrong.status == 2);
  CHECK(has(wrong.text,
            "plan verify_own_plan.json: \"tests.softmax\": tests.softmax: dims "
            "\"...c -> ...c\": with c split over 2 devices, result 0 differs by "));
}

TEST_CASE("operators that nobody defined are named, and so is a library that does not load") {
  const CompiledStep plan = plan_only(small_step(true), DataParallel{}, Cluster::named("dgx-a100"));
  CHECK(has(verify(to_json(plan)).text,
            "unknown operator \"tests.rms_norm\"; define it before, with define_op"));
  const ProgramOutput output = run_program(ALPA_TOOL, {"--operators", "./nowhere.so", "version"});
  CHECK(output.status == 2);
  CHECK(has(output.text, "alpa: --operators: ./nowhere.so: "));
}

TEST_CASE("a plan is for the graph of its model") {
  const std::string plan = planned(DataParallel{});
  const TemporaryFile same("verify_model.txt", to_string(make_step().trace(1)));
  const TemporaryFile other("verify_other.txt", to_string(make_step().trace(2)));
  CHECK(verify(plan, {"--model", same.path()}).status == 0);
  CHECK(has(mistake(plan, [](Json&) {}, {"--model", other.path()}),
            "with 2 micro-batches; plan the step again"));
  CHECK(has(verify(plan, {"--model", "nowhere.txt"}).text, "nowhere.txt"));
}

TEST_CASE("elements that differ by more than rounding are found, and so is what is no number") {
  const Array expected = array_of({1, -2, 3});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(tools::difference_of("w", array_of({1, -2, 3 + 1e-15}), expected).is_rounding());
  const tools::TensorDifference wrong = tools::difference_of("w", array_of({1, 2, 3}), expected);
  CHECK(wrong.largest == 4);
  CHECK(wrong.scale == 3);
  CHECK_FALSE(wrong.is_rounding());
  CHECK_FALSE(tools::difference_of("w", array_of({1, nan, 3}), expected).is_rounding());
  CHECK_FALSE(tools::difference_of("w", array_of({1e-6, 0, 0}), array_of({0, 0, 0})).is_rounding());
  CHECK_THROWS_WITH_AS(tools::difference_of("w", array_of({1}), expected),
                       "\"w\" is f64[1], but f64[3] on one device", Error);
}

}  // namespace verify_test
