// `alpa train FILE`: functions of JAX, as the program trains them.
#include <doctest/doctest.h>

#include <alpa/alpa.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include "alpa/import/stablehlo.h"
#include "import/data.h"
#include "support/difference.h"
#include "support/mpirun.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace train_imported_test {

using namespace alpa;
using namespace alpa::testing;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

namespace {

const std::string kMlp = ALPA_SOURCE_DIR "/tests/import/data/mlp.mlir.gz",
                  kData = ALPA_SOURCE_DIR "/tests/import/data/mlp_data.safetensors";

ProgramOutput alpa_train(const std::string& file, Words words) {
  words.insert(words.begin(), {"train", file, "--quiet", "--backend", "cpu", "--devices", "2"});
  return run_program(ALPA_PROGRAMS "/alpa", words);
}

std::vector<double> losses_of(const std::string& file, Words words) {
  words.insert(words.end(), {"--json", "/dev/stdout"});
  const ProgramOutput output = alpa_train(file, words);
  CAPTURE(output.text);
  REQUIRE(output.status == 0);
  return Json::parse(output.text.substr(output.text.find("\n{\n")))["loss"];
}

std::string mistake(const std::string& file, const Words& words) {
  const ProgramOutput output = alpa_train(file, words);
  CHECK(output.status == 2);
  return output.text;
}

/// Arguments from `begin` to `end` by name.
std::map<std::string, Array> arguments_of(const JaxData& data, const Imported& function,
                                          std::size_t begin, std::size_t end) {
  std::map<std::string, Array> found;
  for (std::size_t i = begin; i < end; ++i)
    found.emplace(function.arguments[i].name, data.at("in", i));
  return found;
}

struct Files {
  TemporaryFolder folder{"train_imported"};
  Files() { std::filesystem::create_directory(folder.path()); }
  std::string of(const char* name) const { return folder.path() + "/" + name; }
};

/// Writes the state and the batch of a whole step as "state" and "data". Returns the number of
/// arguments that are state.
std::size_t write_arguments(const JaxData& data, const Imported& step, const Files& files) {
  const std::size_t state = data.count("out.") - 1;
  write_safetensors(files.of("state"), arguments_of(data, step, 0, state));
  write_safetensors(files.of("data"), arguments_of(data, step, state, step.arguments.size()));
  return state;
}

/// The losses of `steps` steps by the API, on rows of kData in their order.
std::vector<double> expected_losses(const Imported& loss, const std::map<std::string, Array>& start,
                                    int micro_batches, int steps, TrainState& state) {
  const Executable run =
      parallelize(training_step(loss, optim::Sgd{.learning_rate = 0.1, .momentum = 0.9},
                                {.micro_batches = micro_batches}),
                  Serial{.num_micro_batches = micro_batches}, Cluster::local(1));
  state = run.init(0);
  for (const auto& [name, array] : start) state[name] = array;
  const TensorFile data(kData);
  std::vector<double> losses;
  const BatchData all = {{"batch.x", data["batch.x"]}, {"batch.y", data["batch.y"]}};
  for (int i = 0; i < steps; ++i) {
    const int rows = 8 * micro_batches, first = i * rows % 64;
    std::vector<std::int64_t> of(static_cast<std::size_t>(rows));
    for (int k = 0; k < rows; ++k) of[static_cast<std::size_t>(k)] = first + k;
    const BatchData batch = {{"batch.x", take_rows(all.at("batch.x"), of)},
                             {"batch.y", take_rows(all.at("batch.y"), of)}};
    losses.push_back(run.run(state, batch).loss());
  }
  return losses;
}

}  // namespace

TEST_CASE("a loss of JAX trains as by the API, round and round its data, and is saved by name") {
  const JaxData data("mlp");
  const Imported loss = import_stablehlo(data.text());
  const auto start = arguments_of(data, loss, 0, 4);
  const Files files;
  write_safetensors(files.of("start"), start);
  for (const auto& [micro_batches, steps] : {std::pair(1, 10), std::pair(2, 3)}) {
    CAPTURE(micro_batches);
    TrainState state;
    const std::vector<double> expected = expected_losses(loss, start, micro_batches, steps, state);
    const std::vector<double> found =
        losses_of(kMlp, {"--data", kData, "--load", files.of("start"), "--save", files.of("end"),
                         "--steps", std::to_string(steps), "--optimizer", "sgd", "--learning-rate",
                         "0.1", "--micro-batches", std::to_string(micro_batches)});
    CHECK(largest_distance(found, expected) <= 1e-5);
    const TensorFile end(files.of("end"));
    CHECK(end.names().size() == 4);
    for (const auto& [name, array] : start) CHECK(largest_distance(end[name], state[name]) <= 1e-5);
  }
}

TEST_CASE("a loss without --load begins with small kernels and no bias, and learns") {
  const std::vector<double> losses =
      losses_of(kMlp, {"--data", kData, "--steps", "40", "--learning-rate", "0.02"});
  CHECK(losses.front() == doctest::Approx(std::log(10)).epsilon(0.01));
  CHECK(losses.back() < 1);
}

TEST_CASE("a whole step of JAX runs on its state, is saved and goes on from there") {
  const JaxData data("mlp_adamw");
  const Imported step = import_stablehlo(data.text());
  const Files files;
  const std::size_t state = write_arguments(data, step, files);
  const auto words = [&](const char* from, const char* to, const char* steps) -> Words {
    return {"--data", files.of("data"), "--load",  files.of(from),
            "--save", files.of(to),     "--steps", steps};
  };
  const std::string path = data.path(".mlir.gz");
  const std::vector<double> first = losses_of(path, words("state", "once", "1"));
  CHECK(first[0] == doctest::Approx(data.at("out", state).to_doubles()[0]).epsilon(1e-5));
  const TensorFile once(files.of("once"));
  for (std::size_t i = 0; i < state; ++i)
    CHECK(largest_distance(once[step.arguments[i].name], data.at("out", i)) <= 1e-5);
  const double second = losses_of(path, words("once", "twice", "1"))[0];
  CHECK(losses_of(path, words("state", "both", "2"))[1] == doctest::Approx(second).epsilon(1e-6));
}

TEST_CASE("ten whole steps of jax's and flax's models in two processes have the losses of JAX") {
  if (const std::string why = no_mpirun(); !why.empty()) {
    MESSAGE(why);
    return;
  }
  for (const std::string name : {"llama_adamw", "flax_llama_scan_adamw", "flax_bert_adamw",
                                 "flax_vit_adamw", "flax_resnet_adamw"}) {
    CAPTURE(name);
    const JaxData data(name);
    const Files files;
    write_arguments(data, import_stablehlo(data.text()), files);
    const ProgramOutput output =
        run_under_mpirun(2, ALPA_PROGRAMS "/alpa",
                         {"train", data.path(".mlir.gz"), "--quiet", "--backend", "cpu",
                          "--devices", "4", "--data", files.of("data"), "--load", files.of("state"),
                          "--steps", "10", "--json", files.of("end")});
    CAPTURE(output.text);
    REQUIRE(output.status == 0);
    const std::vector<double> losses = Json::parse(std::ifstream(files.of("end")))["loss"];
    const std::vector<double> expected = data.at("losses", 0).to_doubles();
    REQUIRE(losses.size() == expected.size());
    for (std::size_t n = 0; n < losses.size(); ++n)
      CHECK(losses[n] == doctest::Approx(expected[n]).epsilon(1e-5));
  }
}

TEST_CASE("data that do not fit are named, with what the function needs") {
  const std::string needed = "\"batch.x\" f32[n, 16], \"batch.y\" i32[n], where n is 8 or more\n";
  CHECK(
      mistake(kMlp, {}).ends_with("--data is missing; give a safetensors file that has " + needed));
  const Files files;
  const auto refused = [&](const std::map<std::string, Array>& tensors) {
    write_safetensors(files.of("data"), tensors);
    const std::string text = mistake(kMlp, {"--data", files.of("data")});
    return text.substr(text.find("--data "));
  };
  const std::string start = "--data " + files.of("data") + ": ",
                    end = "; the function needs " + needed;
  CHECK(refused({{"x", Array({f32, {8, 16}})}}) == start + "lacks \"batch.x\"" + end);
  CHECK(refused({{"batch.x", Array({f64, {8, 16}})}}) ==
        start + "its tensor \"batch.x\" is f64[8, 16]" + end);
  CHECK(refused({{"batch.x", Array({f32, {4, 16}})}}) ==
        start + "its tensor \"batch.x\" is f32[4, 16]" + end);
  CHECK(refused({{"batch.x", Array({f32, {9, 16}})}, {"batch.y", Array({i32, {8}})}}) ==
        start +
            "\"batch.y\" has 8 examples, but \"batch.x\" has 9; row i of each must be "
            "example i\n");
}

TEST_CASE("parameters that nothing begins are named") {
  const JaxData bert("bert");
  CHECK(mistake(bert.path(".mlir.gz"), {"--parameters", "36"})
            .ends_with("--load is missing: nothing says how \"arg1\" f32[24] begins, neither a "
                       "matrix nor a bias or a scale; give a safetensors file that has the "
                       "parameters\n"));
  CHECK(mistake(JaxData("mlp_adamw").path(".mlir.gz"), {})
            .ends_with("--load is missing: a whole step starts with its state, \"arg0\" and "
                       "others; give a safetensors file that has it\n"));
  const Files files;
  write_safetensors(files.of("start"), {{"params.hidden.kernel", Array({f32, {3}})}});
  CHECK(mistake(kMlp, {"--data", kData, "--load", files.of("start")})
            .ends_with("weight map: parameter \"params.hidden.kernel\": is f32[16, 32], but tensor "
                       "\"params.hidden.kernel\" of " +
                       files.of("start") + " is f32[3]\n"));
}

TEST_CASE("flags that a function of JAX does not have are refused") {
  CHECK(mistake(kMlp, {"--batch", "4"}).find("--batch") != std::string::npos);
  CHECK(mistake(JaxData("mlp_adamw").path(".mlir.gz"), {"--optimizer", "sgd"})
            .ends_with("--optimizer has no effect on a whole step of JAX, which is as it is\n"));
  CHECK(mistake(kData, {"--data", kData}).find("expected an operation") != std::string::npos);
  CHECK(mistake("none.mlir", {"--data", kData}).find("none.mlir") != std::string::npos);
}

}  // namespace train_imported_test
