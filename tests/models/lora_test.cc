// Adapters (LoRA): training them, their files, and what transformers and PEFT make of the same.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <filesystem>

#include "alpa/models/hugging_face.h"
#include "alpa/models/peft.h"
#include "alpa/models/pretrained.h"
#include "src/base/file.h"
#include "src/base/json.h"
#include "support/difference.h"
#include "support/error_text.h"
#include "support/golden.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace lora_test {

using namespace alpa;
using namespace alpa::testing;
namespace fs = std::filesystem;

namespace {

const std::string kFolder = golden_path("pretrained/llama");
const std::string kAdapter = kFolder + "/adapter";

/// tuning.safetensors: rows [10, 2, 13], and what PEFT makes of them.
TensorFile tuning() { return TensorFile(kFolder + "/tuning.safetensors"); }

models::DecoderOptions llama() { return models::read_pretrained(kFolder).decoder; }

/// Row `step` of the file as a batch of 12 tokens and their labels.
BatchData batch_of(const TensorFile& file, std::int64_t step) {
  const Array rows = file["rows"];
  const std::int64_t batch = rows.shape()[1], length = rows.shape()[2];
  std::vector<std::int32_t> tokens, labels;
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t t = 0; t + 1 < length; ++t) {
      tokens.push_back(rows.at<std::int32_t>(step, b, t));
      labels.push_back(rows.at<std::int32_t>(step, b, t + 1));
    }
  const Shape shape{batch, length - 1};
  return {{"tokens", Array(tokens, shape)}, {"labels", Array(labels, shape)}};
}

TrainingStep tuning_step(const std::optional<Lora>& lora) {
  const models::Decoder decoder(llama());
  return training_step(inputs_of(batch_of(tuning(), 0)),
                       [decoder](const Batch& b) { return decoder.loss(b["tokens"], b["labels"]); },
                       optim::AdamW{.learning_rate = 1e-2}, {.lora = lora});
}

/// The folder's model and its adapters, if the step has any.
TrainState loaded(const Executable& executable, bool adapted = true) {
  TrainState state = executable.init(0);
  models::load_hugging_face(state, TensorFile(models::read_pretrained(kFolder).weights), llama());
  if (adapted) models::load_peft(state, models::read_peft(kAdapter, llama()), llama());
  return state;
}

/// Losses of ten steps, each before its update.
std::vector<double> losses(const Executable& executable, TrainState& state) {
  const TensorFile file = tuning();
  std::vector<double> losses;
  for (std::int64_t step = 0; step < 10; ++step)
    losses.push_back(executable.run(state, batch_of(file, step)).loss());
  return losses;
}

void check_losses(const std::vector<double>& found, const Array& expected) {
  const std::vector<double> of_peft = expected.to_doubles();
  REQUIRE(found.size() == of_peft.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i] == doctest::Approx(of_peft[i]).epsilon(1e-5));
  }
}

struct Plan {
  const char* name;
  Method method;
  int devices;
};
std::vector<Plan> plans() {
  return {{"one device", Serial{}, 1},
          {"shard on 4", ShardParallel{}, 4},
          {"shard on 8", ShardParallel{}, 8},
          {"data on 2", DataParallel{}, 2},
          {"two stages", PipeshardParallel{.num_micro_batches = 2, .stages = UniformStages{2}}, 2}};
}

/// A folder of PEFT's that a test may change.
class Adapter {
 public:
  Adapter() : folder_("lora_test_adapter") {
    fs::copy(kAdapter, folder_.path(), fs::copy_options::recursive);
  }
  const std::string& path() const { return folder_.path(); }
  /// The mistake of the folder with this member in its configuration.
  std::string mistake(const std::string& key, const nlohmann::json& value) const {
    const std::string file = path() + "/adapter_config.json";
    nlohmann::json config =
        parse_json(read_file(kAdapter + "/adapter_config.json", {"", 1 << 20}), file);
    config[key] = value;
    write_file(file, config.dump());
    const std::string text = error_of([&] { models::read_peft(path(), llama()); });
    REQUIRE(text.starts_with(file + ": "));
    return text.substr(file.size() + 2);
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace

TEST_CASE(
    "ten steps of adapters, and of all weights, are those of PEFT and torch under every plan") {
  for (const Plan& plan : plans()) {
    CAPTURE(std::string(plan.name));
    for (const bool adapted : {true, false}) {
      std::optional<Lora> lora;
      if (adapted) lora = models::read_peft(kAdapter, llama()).lora;
      const Executable train =
          parallelize(tuning_step(lora), plan.method, Cluster::local(plan.devices, "cpu"));
      TrainState state = loaded(train, adapted);
      check_losses(losses(train, state), tuning()[adapted ? "adapter_losses" : "full_losses"]);
    }
  }
}

TEST_CASE("nothing but adapters is trained, or has state of the optimizer") {
  const Lora lora = models::read_peft(kAdapter, llama()).lora;
  const Executable train =
      parallelize(tuning_step(lora), ShardParallel{}, Cluster::local(2, "cpu"));
  TrainState state = loaded(train);
  std::map<std::string, std::vector<double>> before;
  for (const DistributedArray& parameter : state.parameters())
    before[parameter.name()] = parameter.to_host().to_doubles();
  losses(train, state);
  std::size_t changed = 0;
  for (const DistributedArray& parameter : state.parameters()) {
    CAPTURE(parameter.name());
    const bool adapter = parameter.name().find(".lora_") != std::string::npos;
    CHECK((parameter.to_host().to_doubles() != before[parameter.name()]) == adapter);
    changed += adapter ? 1 : 0;
  }
  CHECK(changed == 2 * lora.targets.size());
  CHECK(changed == 12);  // q_proj, v_proj and down_proj of two blocks
  for (const std::string& name : state.names())
    if (name.ends_with(".adam_m")) CHECK(name.find(".lora_") != std::string::npos);
}

TEST_CASE("new adapters change nothing; merged ones are in the weights") {
  const Lora lora{.targets = {"*.attention.*", "*.down"}, .rank = 3, .alpha = 5};
  const Executable adapted =
                       parallelize(tuning_step(lora), ShardParallel{}, Cluster::local(2, "cpu")),
                   plain = parallelize(tuning_step({}), ShardParallel{}, Cluster::local(2, "cpu"));
  const BatchData batch = batch_of(tuning(), 0);
  TrainState with = loaded(adapted, false), without = loaded(plain, false);
  CHECK(adapted.run(with, batch).loss() ==
        doctest::Approx(plain.run(without, batch).loss()).epsilon(1e-6));
  losses(adapted, with);
  CHECK(merge_adapters(with, lora) == 10);
  TrainState merged = plain.init(0);
  for (const DistributedArray& parameter : merged.parameters())
    merged[parameter.name()] = with[parameter.name()].to_host();
  const double loss = plain.run(merged, batch).loss();
  CHECK(adapted.run(with, batch).loss() == doctest::Approx(loss).epsilon(1e-5));
  CHECK(loss < 0.99 * tuning()["full_losses"].to_doubles()[0]);
}

TEST_CASE("adapters are written as PEFT has them, bit for bit") {
  const models::PeftAdapters adapters = models::read_peft(kAdapter, llama());
  const Executable train =
      parallelize(tuning_step(adapters.lora), ShardParallel{}, Cluster::local(4, "cpu"));
  const TrainState state = loaded(train);
  const TemporaryFolder folder("lora_test_saved");
  models::save_peft(state, folder.path(), llama(), adapters.lora, "a/llama");
  const TensorFile written(folder.path() + "/adapter_model.safetensors"),
      given(kAdapter + "/adapter_model.safetensors");
  CHECK(written.names() == given.names());
  for (const std::string& name : given.names())
    CHECK(written[name].to_doubles() == given[name].cast(f32).to_doubles());
  const std::string file = folder.path() + "/adapter_config.json";
  const nlohmann::json config = parse_json(read_file(file, {"", 1 << 20}), file);
  CHECK(config.at("r") == 4);
  CHECK(config.at("lora_alpha") == 6);
  CHECK(config.at("base_model_name_or_path") == "a/llama");
  CHECK(config.at("target_modules") == nlohmann::json{"down_proj", "q_proj", "v_proj"});
  const models::PeftAdapters again = models::read_peft(folder.path(), llama());
  CHECK(again.lora.targets == adapters.lora.targets);
}

TEST_CASE("alpa-gpt continues texts with adapters, tunes and saves them") {
  const TemporaryFolder folder("lora_test_program");
  fs::create_directories(folder.path());
  const std::string out = folder.path() + "/logits.safetensors", tuned = folder.path() + "/adapter",
                    merged = folder.path() + "/merged.safetensors",
                    whole = folder.path() + "/whole";
  const auto gpt = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"--load", kFolder});
    const ProgramOutput output = run_program(ALPA_PROGRAMS "/alpa-gpt", words);
    CAPTURE(output.text);
    REQUIRE(output.status == 0);
  };
  const auto logits = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"--prompt", "A plan", "--logits", out, "--generate", "1"};
    words.insert(words.end(), more.begin(), more.end());
    gpt(words);
    return TensorFile(out)["logits"];
  };
  const Array plain = logits({});
  CHECK(largest_distance(logits({"--adapter", kAdapter}), plain) > 0.1);
  gpt({"--lora",
       "4",
       "--lora-targets",
       "*.attention.*,*.down",
       "--steps",
       "5",
       "--data",
       ALPA_SOURCE_DIR "/README.md",
       "--sequence",
       "16",
       "--batch",
       "4",
       "--backend",
       "cpu",
       "--devices",
       "2",
       "--quiet",
       "--learning-rate",
       "0.05",
       "--save-adapter",
       tuned,
       "--save",
       merged,
       "--save-folder",
       whole});
  const Array adapted = logits({"--adapter", tuned});
  CHECK(largest_distance(adapted, plain) > 0.1);
  CHECK(parse_json(read_file(whole + "/config.json", {"", 1 << 20}), whole).at("dtype") ==
        "float32");
  CHECK(TensorFile(whole + "/model.safetensors").names() == TensorFile(merged).names());
  const ProgramOutput output =
      run_program(ALPA_PROGRAMS "/alpa-gpt",
                  {"--load", whole, "--prompt", "A plan", "--logits", out, "--generate", "1"});
  CAPTURE(output.text);
  REQUIRE(output.status == 0);
  CHECK(largest_distance(TensorFile(out)["logits"], adapted) < 1e-3);
}

TEST_CASE("what cannot be saved is told before the training") {
  const auto mistake = [](const std::string& folder, std::vector<std::string> words) {
    words.insert(words.begin(), {"--load", folder, "--steps", "1000000", "--data",
                                 ALPA_SOURCE_DIR "/README.md", "--sequence", "16"});
    const ProgramOutput output = run_program(ALPA_PROGRAMS "/alpa-gpt", words);
    CHECK(output.status == 2);
    return output.text;
  };
  const std::string gpt2 = golden_path("pretrained/gpt2");
  CHECK(mistake(gpt2, {"--lora", "4", "--save-adapter", "never"})
            .find("alpa-gpt: adapter of \"blocks.0.attention.query\": it is a part of") == 0);
  CHECK(mistake(gpt2, {"--save-folder", gpt2}) ==
        "alpa-gpt: " + gpt2 + ": is the folder that the model was read from; give another one\n");
}

TEST_CASE("mistakes with adapters are told") {
  const auto trace = [](const Lora& lora) { return error_of([&] { tuning_step(lora).trace(1); }); };
  CHECK(trace({.targets = {"*.attention.*", "*.attn"}}) ==
        "lora: target \"*.attn\" fits the name of no Dense layer; names are like "
        "\"blocks.0.attention.query\", and * stands for any text");
  CHECK(trace({}) == "lora: no targets; name Dense layers, e.g. {\"*.attention.*\"}");
  CHECK(trace({.targets = {"*"}, .rank = 0}) == "lora: rank 0; give at least 1");
  CHECK(trace({.targets = {"*"}, .dropout = 1}) == "lora: dropout rate 1 is not in [0, 1)");
  // A step that follows has to read the adapters, too.
  const models::Decoder decoder(llama());
  const Lora lora{.targets = {"*.query"}};
  const TrainingStep evaluation =
      evaluation_step(inputs_of(batch_of(tuning(), 0)),
                      [decoder](const Batch& b) { return decoder.loss(b["tokens"], b["labels"]); });
  CHECK(error_of([&] {
          parallelize(tuning_step(lora), evaluation, ShardParallel{}, Cluster::local(2, "cpu"));
        }) ==
        "\"blocks.0.attention.query\" is adapted by the trained step, but not by the one that "
        "follows it; give EvaluationOptions::lora what StepOptions::lora is");
}

TEST_CASE("folders of PEFT that hold something else are refused") {
  const Adapter adapter;
  CHECK(adapter.mistake("peft_type", "IA3") == "peft_type: found \"IA3\", expected \"LORA\"");
  CHECK(adapter.mistake("init_lora_weights", "pissa") ==
        "init_lora_weights: found \"pissa\", expected \"gaussian\"");
  CHECK(adapter.mistake("use_dora", true) == "use_dora: found true, expected false");
  CHECK(adapter.mistake("rank_pattern", {{"q_proj", 2}}) ==
        "rank_pattern: found an object, expected null or nothing in it");
  CHECK(adapter.mistake("r", 0) == "r: found 0, expected a whole number from 1 to 1048576");
  models::DecoderOptions shorter = llama();
  shorter.layers = 1;
  CHECK(error_of([&] { models::read_peft(kAdapter, shorter); })
            .ends_with("has tensor \"base_model.model.model.layers.1.mlp.down_proj.lora_A.weight\","
                       " which is no adapter of a layer of this decoder"));
  const Lora of_queries{.targets = {"*.query"}};
  const models::DecoderOptions gpt2 =
      models::read_pretrained(golden_path("pretrained/gpt2")).decoder;
  const models::Decoder decoder(gpt2);
  const TrainState state =
      parallelize(training_step(
                      inputs_of(batch_of(tuning(), 0)),
                      [decoder](const Batch& b) { return decoder.loss(b["tokens"], b["labels"]); },
                      optim::Sgd{}, {.lora = of_queries}),
                  Serial{}, Cluster::local(1, "cpu"))
          .init(0);
  CHECK(error_of([&] { models::save_peft(state, "never", gpt2, of_queries); }) ==
        "adapter of \"blocks.0.attention.query\": it is a part of \"transformer.h.0.attn.c_attn\" "
        "in transformers' model, which has one adapter for all of it; leave the layer out of the "
        "targets");
}

}  // namespace lora_test
