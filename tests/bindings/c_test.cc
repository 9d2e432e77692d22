// The C interface, on texts and numbers of jax (tests/import/make.py).
#include <doctest/doctest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/c/alpa_c.h"
#include "import/data.h"
#include "support/difference.h"

namespace bindings_c_test {

using namespace alpa;
using namespace alpa::testing;
using Json = nlohmann::json;

namespace {

constexpr double kTolerance = 1e-5;

template <class T>
using Handle = std::unique_ptr<T, void (*)(T*)>;

Handle<alpa_function> imported(const std::string& text) {
  return {alpa_import(text.data(), text.size()), alpa_function_free};
}
Handle<alpa_plan> planned(const alpa_function* function, const std::string& options) {
  Handle<alpa_plan> plan(alpa_plan_new(function, options.c_str()), alpa_plan_free);
  REQUIRE_MESSAGE(plan != nullptr, alpa_last_error());
  return plan;
}
Handle<alpa_run> loaded(const alpa_function* function, const char* options) {
  return {alpa_run_new(function, options, 0), alpa_run_free};
}

Json taken(char* text) {
  REQUIRE(text != nullptr);
  const Handle<char> owned(text, alpa_free_text);
  return Json::parse(text);
}

alpa_tensor tensor_of(const char* name, const Array& array) {
  return {name, name_of(array.dtype()).data(), array.type().rank(), array.shape().data(),
          array.data()};
}

std::vector<double> content(alpa_array* array) {
  REQUIRE(array != nullptr);
  const Handle<alpa_array> owned(array, alpa_array_free);
  const alpa_tensor tensor = alpa_array_tensor(array);
  const Shape shape(tensor.shape, tensor.shape + tensor.rank);
  return Array::view(tensor.data, {parse_dtype(tensor.dtype), shape}).to_doubles();
}

/// The message of a call that fails.
std::string failure(bool failed) {
  CHECK(failed);
  return alpa_last_error();
}

Json empty_spec(const Json& tensor) {
  return std::vector<Json>(tensor["shape"].size(), Json::array());
}

}  // namespace

TEST_CASE("a function says its arguments and results in jax's order") {
  const auto function = imported(JaxData("mlp").text());
  const Json json = taken(alpa_function_json(function.get()));
  CHECK(json["is_loss"] == true);
  CHECK(json["arguments"].size() == 6);
  CHECK(json["arguments"][0]["name"] == "params.hidden.bias");
  CHECK(json["results"] == Json::parse(R"([{"name": "result", "dtype": "f32", "shape": []}])"));
  CHECK(json["recognised"] == Json::parse(R"({"cross_entropy": 1})"));
}

TEST_CASE("specs of data parallelism split the batch, and hold parameters whole") {
  const auto function = imported(JaxData("mlp").text());
  const auto plan = planned(function.get(), R"({"devices": 4, "method": "data"})");
  const Json json = taken(alpa_plan_json(plan.get()));
  CHECK(json["mesh"] == Json::parse(R"({"shape": [4], "axes": ["x"]})"));
  for (const Json& argument : json["arguments"]) {
    Json expected = empty_spec(argument);
    if (argument["role"] == "batch") expected[0] = {"x"};
    CHECK_MESSAGE(argument["spec"] == expected, argument["name"]);
  }
  CHECK(json["results"][0]["spec"] == Json::array());
  CHECK(json["state"].size() == 3 * 4);  // AdamW has two moments of each parameter
  CHECK(json["traffic"].contains("all_reduce"));
  CHECK(json["seconds"] > 0);
}

TEST_CASE("values inside a function are constraints with the line of the text") {
  const std::string text = JaxData("mlp").text();
  const auto function = imported(text);
  const auto plan = planned(function.get(), R"({"devices": 4, "method": "data"})");
  const Json json = taken(alpa_plan_json(plan.get()));
  int products = 0;
  for (const Json& constraint : json["constraints"]) {
    if (!constraint["product"]) continue;
    ++products;
    std::size_t at = 0;
    for (int line = 1; line < constraint["line"]; ++line) at = text.find('\n', at) + 1;
    CHECK(text.substr(at, text.find('\n', at) - at).find("stablehlo.dot_general") != text.npos);
    CHECK(constraint["spec"] == Json::parse(R"([["x"], []])"));
  }
  CHECK(products == 2);  // two layers
}

TEST_CASE("new state of a whole step is laid out as the old") {
  const auto function = imported(JaxData("mlp_adamw").text());
  const auto plan = planned(function.get(), R"({"cluster": "dgx-a100", "method": "zero3"})");
  const Json json = taken(alpa_plan_json(plan.get()));
  int split = 0;
  for (std::size_t i = 0; i + 1 < json["results"].size(); ++i) {
    CHECK(json["results"][i]["spec"] == json["arguments"][i]["spec"]);
    if (json["results"][i]["spec"] != empty_spec(json["results"][i])) ++split;
  }
  CHECK(split > 0);
}

TEST_CASE("a plan of several stages has no specs of the whole function") {
  const JaxData data("llama_scan");
  const auto function = imported(data.text());
  const Json options = {{"devices", 4},
                        {"method", "pipeline"},
                        {"stages", 2},
                        {"parameters", std::to_string(data.count("grad."))}};
  const auto plan = planned(function.get(), options.dump());
  const Json json = taken(alpa_plan_json(plan.get()));
  CHECK(json["stages"] == 2);
  CHECK(json["mesh"].is_null());
  CHECK(!json["arguments"][0].contains("spec"));
}

TEST_CASE("a step of a loss gives jax's loss and gradients") {
  const JaxData data("mlp");
  const auto function = imported(data.text());
  const auto run = loaded(function.get(), R"({"devices": 4, "optimizer": {"name": "sgd",
                                            "learning_rate": 1}, "parameters": "4"})");
  REQUIRE_MESSAGE(run != nullptr, alpa_last_error());
  const Json arguments = taken(alpa_function_json(function.get()))["arguments"];
  std::vector<std::string> names;
  for (const Json& argument : arguments) names.push_back(argument["name"]);
  std::vector<Array> inputs;
  for (std::size_t i = 0; i < names.size(); ++i) inputs.push_back(data.at("in", i));
  std::vector<alpa_tensor> batch;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const alpa_tensor tensor = tensor_of(names[i].c_str(), inputs[i]);
    if (i < 4)
      CHECK(alpa_run_set(run.get(), &tensor) == 0);
    else
      batch.push_back(tensor);
  }
  CHECK(failure(alpa_run_results(run.get()) == nullptr) == "no step has run yet");
  REQUIRE(alpa_run_step(run.get(), batch.data(), batch.size()) == 0);
  const Json results = taken(alpa_run_results(run.get()));
  const double expected = data.at("out", 0).to_doubles()[0];
  CHECK(std::abs(results["metrics"]["loss"].get<double>() - expected) < kTolerance * expected);
  for (std::size_t i = 0; i < 4; ++i) {
    std::vector<double> change = inputs[i].to_doubles();
    const std::vector<double> after = content(alpa_run_get(run.get(), names[i].c_str()));
    for (std::size_t k = 0; k < change.size(); ++k) change[k] -= after[k];
    CHECK(largest_distance(change, data.at("grad", i).to_doubles()) < kTolerance);
  }
  const Handle<alpa_plan> plan(alpa_run_plan(run.get()), alpa_plan_free);
  CHECK(taken(alpa_plan_json(plan.get()))["method"] == "shard");
}

TEST_CASE("failures say what was wrong, and how to mend it") {
  const auto loss = imported(JaxData("mlp").text()), step = imported(JaxData("mlp_adamw").text());
  const auto refused = [](const alpa_function* function, const char* options) {
    return failure(alpa_plan_new(function, options) == nullptr);
  };
  CHECK(failure(alpa_import("module", 6) == nullptr).starts_with("StableHLO, line 1, column 1: "));
  CHECK(refused(loss.get(), "{}") ==
        "give one of the options cluster (p3.16xlarge, dgx-v100, dgx-a100, hgx-h100, hgx-h200, "
        "local, or a cluster file) and devices");
  CHECK(refused(loss.get(), R"({"devices": 4, "micro_batch": 2})") ==
        "option micro_batch is unknown; there are clip_global_norm, cluster, devices, hosts, "
        "memory_budget, mesh, method, micro_batches, optimizer, parameters, precision, stages, "
        "time_limit");
  CHECK(refused(loss.get(), R"({"devices": -1})") ==
        "option devices is -1; it must be a whole number from 0 on");
  CHECK(refused(loss.get(), R"({"devices": 4, "optimizer": {"name": "sgd", "beta1": 0.9}})") ==
        "optimizer beta1 is unknown; there are learning_rate, momentum, name, nesterov, "
        "weight_decay");
  CHECK(refused(step.get(), R"({"devices": 4, "micro_batches": 2})") ==
        "option micro_batches has no effect on a whole step of JAX, which is as it is; give the "
        "loss");
  const auto run = loaded(loss.get(), R"({"devices": 1})");
  const Array wrong(std::vector<float>(2), {2});
  const alpa_tensor tensor = tensor_of("params.hidden.kernel", wrong);
  CHECK(failure(alpa_run_set(run.get(), &tensor) == 1) ==
        "state \"params.hidden.kernel\" is f32[16, 32], but the array is f32[2]");
  CHECK(failure(alpa_run_step(run.get(), &tensor, 1) == 1) != "");
}

}  // namespace bindings_c_test
