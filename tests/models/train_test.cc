// `alpa train MODEL`, whose other names are alpa-gpt, alpa-mlp and others.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/program.h"

namespace train_test {

using namespace alpa::testing;
using Json = nlohmann::json;

namespace {

using Words = std::vector<std::string>;

constexpr const char* kCluster = ALPA_SOURCE_DIR "/clusters/cpu_2x4.json";

ProgramOutput alpa_train(Words words) {
  words.insert(words.begin(), "train");
  return run_program(ALPA_PROGRAMS "/alpa", words);
}

/// The report of --json of the words of `alpa train` or of the program `alpa-MODEL`.
Json report_of(const std::string& program, Words words) {
  for (const char* word : {"--quiet", "--json", "/dev/stdout", "--backend", "cpu"})
    words.push_back(word);
  const ProgramOutput output =
      program.empty() ? alpa_train(words) : run_program(ALPA_PROGRAMS "/alpa-" + program, words);
  CAPTURE(output.text);
  REQUIRE(output.status == 0);
  return Json::parse(output.text.substr(output.text.find("\n{\n")));
}

Words joined(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string mistake(const Words& words) {
  const ProgramOutput output = alpa_train(words);
  CHECK(output.status == 2);
  return output.text;
}

/// The models that `alpa train --help` names.
Words model_names() {
  const std::string help = alpa_train({"--help"}).text;
  const std::size_t begin = help.find("one of ") + 7;
  std::istringstream list(help.substr(begin, help.find(';', begin) - begin));
  Words names;
  for (std::string name; std::getline(list >> std::ws, name, ',');) names.push_back(name);
  return names;
}

}  // namespace

TEST_CASE("alpa train MODEL trains to the losses of alpa-MODEL, to the bit") {
  const std::vector<Words> runs = {
      {"gpt", "--sequence", "8", "--batch", "4", "--steps", "3", "--devices", "2"},
      {"mlp", "--dim", "8", "--layers", "3", "--batch", "8", "--epochs", "2", "--devices", "2"},
      {"vit", "--batch", "4", "--steps", "2", "--devices", "2"}};
  for (const Words& run : runs) {
    CAPTURE(run[0]);
    const Json losses = report_of("", run)["loss"];
    CHECK(losses.size() >= 2);
    CHECK(losses == report_of(run[0], Words(run.begin() + 1, run.end()))["loss"]);
  }
}

TEST_CASE("a SIZE has the extents that it was published with, and flags win over them") {
  const Words plan = {"--plan-only", "--method", "data", "--devices", "2", "--batch", "16"};
  const auto step_of = [&](const std::string& program, const Words& words) {
    const Json report = report_of(program, joined(words, plan));
    return std::pair(report["parameters"], report["flops"]);
  };
  CHECK(step_of("", {"bert", "tiny"}) ==
        step_of("bert", {"--sequence", "512", "--vocabulary", "30522"}));
  CHECK(step_of("", {"llama", "7B", "--sequence", "8", "--layers", "1", "--hidden", "64"}) ==
        step_of("gpt", {"--kind", "llama", "--model", "7B", "--sequence", "8", "--layers", "1",
                        "--hidden", "64", "--vocabulary", "32000"}));
  CHECK(step_of("", {"wide-resnet", "cifar"}) == step_of("wide-resnet", {"--model", "cifar"}));
  CHECK(step_of("", {"mlp", "tiny", "--dim", "8"}) ==
        step_of("mlp", {"--dim", "8", "--layers", "4"}));
}

TEST_CASE("alpa plan MODEL SIZE and alpa train MODEL SIZE are about the same step") {
  const ProgramOutput planned =
      run_program(ALPA_PROGRAMS "/alpa", {"plan", "bert", "tiny", "--cluster", kCluster, "--method",
                                          "data", "--remat", "none", "--json"});
  REQUIRE(planned.status == 0);
  const Json plan = Json::parse(planned.text)["plan"];
  const Json train = report_of("", {"bert", "tiny", "--plan-only", "--cluster", kCluster,
                                    "--method", "data", "--batch", "64"});
  CHECK(plan["memory_bytes"] == train["memory"]["planned_bytes"]);
  CHECK(plan["seconds"] == train["planner"]["objective_seconds"]);
}

TEST_CASE("every model of the table has its program, with the same flags") {
  const Words names = model_names();
  CHECK(names.size() == 8);
  const auto flags_of = [](const ProgramOutput& help) {
    CHECK(help.status == 0);
    return help.text.substr(help.text.find("\nOptions:"));
  };
  for (const std::string& name : names) {
    if (name == "llama") continue;  // alpa-gpt --kind llama
    CAPTURE(name);
    CHECK(flags_of(alpa_train({name, "--help"})) ==
          flags_of(run_program(ALPA_PROGRAMS "/alpa-" + name, {"--help"})));
  }
}

TEST_CASE("mistakes of alpa train") {
  CHECK(mistake({}) == "alpa: MODEL is required; --help lists the flags\n");
  CHECK(mistake({"gtp"}).starts_with("alpa: \"gtp\" is no model; the models are gpt, llama, "));
  CHECK(mistake({"bert", "small"}) ==
        "alpa: bert has no size \"small\"; its sizes are tiny, base, large\n");
  CHECK(mistake({"bert", "tiny", "--model", "tiny"}) ==
        "alpa: --model has no effect beside SIZE, which says it\n");
  CHECK(mistake({"llama", "--kind", "gpt"}) ==
        "alpa: The following argument was not expected: --kind; --help lists the flags\n");
  CHECK(mistake({"gpt", "tiny", "--load", ALPA_SOURCE_DIR "/tests/golden/pretrained/llama"})
            .starts_with("alpa: --model has no effect beside --load "));
}

}  // namespace train_test
