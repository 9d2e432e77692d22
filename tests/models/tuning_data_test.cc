// Texts and examples of the user's own: `alpa evaluate`, and trainings on files of JSON lines.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "src/base/file.h"
#include "src/base/json.h"
#include "support/golden.h"
#include "support/program.h"
#include "support/temporary_file.h"
#include "support/temporary_folder.h"

namespace tuning_data_test {

using namespace alpa;
using namespace alpa::testing;
namespace fs = std::filesystem;

namespace {

using Words = std::vector<std::string>;

const std::string kFolder = golden_path("pretrained/llama");

/// Lines with prompts of different lengths, so that rows have different numbers of labels.
std::string lines() {
  std::string text;
  for (int i = 0; i < 12; ++i)
    text += "{\"prompt\": \"" + std::string(1 + 3 * (i % 5), 'a') + "\", \"completion\": \"" +
            std::string(2 + 2 * (i % 4), 'b') + "\"}\n";
  return text;
}

Words joined(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

nlohmann::json json_of(const std::string& program, const Words& words) {
  const TemporaryFile file("tuning_data_test.json", "");
  const ProgramOutput output =
      run_program(program, joined(words, {"--backend", "cpu", "--json", file.path()}));
  CAPTURE(output.text);
  REQUIRE(output.status == 0);
  return parse_json(file.content(), file.path());
}

nlohmann::json evaluated(const std::string& data, const Words& more) {
  return json_of(ALPA_PROGRAMS "/alpa",
                 joined({"evaluate", kFolder, "--data", data, "--devices", "2"}, more));
}

std::string mistake(const std::string& program, const Words& words) {
  const ProgramOutput output = run_program(program, words);
  CHECK(output.status == 2);
  return output.text.substr(output.text.rfind("alpa"));  // without a line of the backend
}

}  // namespace

// Losses of transformers 5.24 in f64, over the same windows.
TEST_CASE("alpa evaluate has the loss of transformers, and counts every token once") {
  struct Windows {
    Words words;
    double loss;
  };
  for (const Windows& windows :
       {Windows{{"--sequence", "32"}, 6.516303002810409},
        Windows{{"--sequence", "32", "--stride", "16", "--batch", "5"}, 6.512698659360977},
        Windows{{"--sequence", "64", "--method", "data", "--batch", "6"}, 6.494437374383015}}) {
    const nlohmann::json json = evaluated(ALPA_SOURCE_DIR "/LICENSE", windows.words);
    CHECK(json.at("tokens") == 8163);
    CHECK(json.at("loss").get<double>() == doctest::Approx(windows.loss).epsilon(2e-6));
    CHECK(json.at("perplexity").get<double>() ==
          doctest::Approx(std::exp(windows.loss)).epsilon(2e-5));
  }
}

TEST_CASE("examples of JSON lines count their completions, whatever the batch") {
  const TemporaryFile data("tuning_data_test.jsonl", lines());
  const nlohmann::json one = evaluated(data.path(), {"--sequence", "24", "--batch", "1"});
  for (const Words& words : {Words{"--batch", "3"}, Words{"--batch", "4", "--micro-batches", "2"}})
    CHECK(evaluated(data.path(), joined({"--sequence", "24"}, words)).at("loss").get<double>() ==
          doctest::Approx(one.at("loss").get<double>()).epsilon(1e-6));
}

TEST_CASE("a training on JSON lines is the same under every plan, with the test set behind it") {
  const TemporaryFile data("tuning_data_test.jsonl", lines());
  const auto losses = [&](const Words& words) {
    const Words all{"--load",  kFolder,        "--data", data.path(),   "--sequence",
                    "24",      "--batch",      "4",      "--steps",     "4",
                    "--quiet", "--test-share", "0.3",    "--optimizer", "sgd"};
    const nlohmann::json json = json_of(ALPA_PROGRAMS "/alpa-gpt", joined(all, words));
    std::vector<double> found = json.at("loss").get<std::vector<double>>();
    found.push_back(json.at("test_loss").get<double>());
    return found;
  };
  const std::vector<double> serial = losses({"--method", "serial"});
  CHECK(serial.size() == 5);
  for (const Words& words :
       {Words{"--method", "serial", "--micro-batches", "4"}, Words{"--devices", "4"},
        Words{"--method", "pipeline", "--devices", "2", "--micro-batches", "4"}}) {
    const std::vector<double> other = losses(words);
    REQUIRE(other.size() == serial.size());
    for (std::size_t i = 0; i < serial.size(); ++i)
      CHECK(other[i] == doctest::Approx(serial[i]).epsilon(1e-5));
  }
}

TEST_CASE("a training in buckets is the same under every plan, and goes on where it stopped") {
  const TemporaryFile data("tuning_data_test.jsonl", lines());
  const auto losses = [&](const Words& words) {
    const Words all{"--load",
                    kFolder,
                    "--data",
                    data.path(),
                    "--sequence",
                    "24",
                    "--buckets",
                    "12,8",
                    "--batch",
                    "2",
                    "--test-share",
                    "0.2",
                    "--quiet",
                    "--micro-batches",
                    "2",
                    "--learning-rate",
                    "0.01"};
    const nlohmann::json json = json_of(ALPA_PROGRAMS "/alpa-gpt", joined(all, words));
    std::vector<double> found = json.at("loss").get<std::vector<double>>();
    found.push_back(json.at("test_loss").get<double>());
    return found;
  };
  const auto check_same = [](const std::vector<double>& found,
                             const std::vector<double>& expected) {
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-4));
  };
  const std::vector<double> serial = losses({"--method", "serial", "--steps", "7"});
  CHECK(serial.size() == 8);
  check_same(losses({"--devices", "4", "--steps", "7"}), serial);
  check_same(losses({"--method", "pipeline", "--devices", "2", "--steps", "7"}), serial);
  const TemporaryFolder saved("tuning_data_test_saved");
  std::vector<double> parts = losses({"--steps", "4", "--checkpoint", saved.path()});
  const std::vector<double> rest =
      losses({"--devices", "2", "--steps", "7", "--checkpoint", saved.path(), "--resume"});
  parts.pop_back();
  parts.insert(parts.end(), rest.begin(), rest.end());
  check_same(parts, serial);
}

TEST_CASE("a training in buckets has the parameters of one device, and a plan that is loaded") {
  const TemporaryFile data("tuning_data_test.jsonl", lines());
  const TemporaryFile plan("tuning_data_test_plan.json", "");
  const Words all{"--load",    kFolder, "--data",    data.path(), "--sequence", "24",
                  "--buckets", "12,8",  "--devices", "2",         "--batch",    "2",
                  "--steps",   "6",     "--quiet",   "--compare"};
  const auto difference = [&](const Words& words) {
    return json_of(ALPA_PROGRAMS "/alpa-gpt", joined(all, words))
        .at("max_abs_parameter_difference")
        .get<double>();
  };
  CHECK(difference({"--save-plan", plan.path()}) < 1e-3);
  CHECK(difference({"--load-plan", plan.path()}) < 1e-3);
}

TEST_CASE("conversations are written by the chat template of the folder") {
  const TemporaryFolder folder("tuning_data_test_folder");
  fs::copy(kFolder, folder.path(), fs::copy_options::recursive);
  const TemporaryFile data("tuning_data_test.jsonl",
                           "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, "
                           "{\"role\": \"assistant\", \"content\": \"bcd\"}]}\n");
  const Words words{"evaluate", folder.path(), "--data", data.path(), "--devices", "1"};
  const std::string without = mistake(ALPA_PROGRAMS "/alpa", words);
  CHECK(
      without.find("line 1: messages: there is no chat template; the tokenizer's folder has it") !=
      std::string::npos);
  std::ofstream(folder.path() + "/chat_template.jinja")
      << "{% for m in messages %}{{ m.role[0] }}{{ m.content }}.{% endfor %}"
         "{% if add_generation_prompt %}a{% endif %}";
  const nlohmann::json json = json_of(ALPA_PROGRAMS "/alpa", words);
  CHECK(json.at("tokens").get<int>() >= 1);  // of "bcd.", as pairs of bytes
  CHECK(json.at("tokens").get<int>() <= 4);
}

TEST_CASE("mistakes with data of one's own are told") {
  const TemporaryFile data("tuning_data_test.jsonl", lines());
  const std::string alpa = ALPA_PROGRAMS "/alpa";
  CHECK(mistake(ALPA_PROGRAMS "/alpa-moe", {"--data", data.path()}) ==
        "alpa-moe: --data tuning_data_test.jsonl: this model learns no examples of JSON lines; "
        "give a text file, or train a decoder, gpt or llama\n");
  CHECK(mistake(ALPA_PROGRAMS "/alpa-gpt", {"--load", kFolder, "--data", data.path(), "--sequence",
                                            "64", "--batch", "8", "--test-share", "0"}) ==
        "alpa-gpt: packed_batches: 12 documents fill 3 rows of 64 tokens, less than a batch of 8; "
        "give a smaller batch, or shorter rows\n");
  const auto buckets = [&](const std::string& lengths, const std::string& from) {
    return mistake(ALPA_PROGRAMS "/alpa-gpt",
                   {"--load", kFolder, "--data", from, "--sequence", "24", "--buckets", lengths});
  };
  CHECK(buckets("8,24", data.path()) ==
        "alpa-gpt: --buckets has 24, but --sequence is 24; give lengths below it: it is the "
        "longest itself\n");
  CHECK(buckets("8,0", data.path()) ==
        "alpa-gpt: --buckets is '8,0'; it must be whole numbers from 1, between commas\n");
  CHECK(buckets("8", ALPA_SOURCE_DIR "/LICENSE") ==
        "alpa-gpt: --buckets has no effect without a .jsonl file of --data, whose examples have "
        "different lengths\n");
  CHECK(mistake(alpa, {"evaluate", kFolder}) ==
        "alpa: --data is missing; give a text, or a file of JSON lines\n");
  CHECK(mistake(alpa, {"evaluate", kFolder, "--data", data.path(), "--stride", "4"}) ==
        "alpa: --stride has no effect with JSON lines\n");
  CHECK(mistake(alpa, {"evaluate", "nowhere", "--data", "LICENSE"}) ==
        "alpa: nowhere: is no folder with a config.json\n");
  CHECK(mistake(alpa, {"evaluate", kFolder, "--data", "LICENSE", "--sequence", "32", "--stride",
                       "33"}) == "alpa: --stride is 33, but --sequence 32; give at most as many\n");
}

}  // namespace tuning_data_test
