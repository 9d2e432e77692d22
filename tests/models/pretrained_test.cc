// Folders of Hugging Face's transformers (scripts/compare_transformers) in alpa-gpt.
#include <alpa/train/safetensors.h>
#include <doctest/doctest.h>

#include <filesystem>

#include "alpa/models/pretrained.h"
#include "src/base/file.h"
#include "src/base/json.h"
#include "support/difference.h"
#include "support/golden.h"
#include "support/program.h"
#include "support/temporary_file.h"
#include "support/temporary_folder.h"

namespace pretrained_test {

using namespace alpa;
using namespace alpa::testing;
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

const std::string kPrompt = "A plan";

std::string folder_of(const std::string& model) { return golden_path("pretrained/" + model); }

ProgramOutput gpt(const Words& words) { return run_program(ALPA_PROGRAMS "/alpa-gpt", words); }

/// The one line that the program prints instead of working.
std::string mistake(const Words& words) {
  const ProgramOutput output = gpt(words);
  CAPTURE(output.text);
  CHECK(output.status == 2);
  CHECK(output.text.find('\n') == output.text.size() - 1);
  REQUIRE(output.text.starts_with("alpa-gpt: "));
  return output.text.substr(10, output.text.size() - 11);
}

/// A copy of a model's folder that a test may change.
class Copy {
 public:
  explicit Copy(const std::string& model) : folder_("pretrained_test_" + model) {
    fs::copy(folder_of(model), folder_.path(), fs::copy_options::recursive);
  }
  const std::string& path() const { return folder_.path(); }
  std::string path(const std::string& file) const { return path() + "/" + file; }
  Json json(const std::string& file) const {
    return parse_json(read_file(path(file), {"", 1 << 20}), file);
  }
  /// Writes a JSON file after `change`.
  template <class Change>
  void change(const std::string& file, Change&& change) const {
    Json changed = json(file);
    change(changed);
    write_file(path(file), changed.dump());
  }
  void set(const std::string& file, const std::string& pointer, const Json& value) const {
    change(file, [&](Json& json) { json[Json::json_pointer(pointer)] = value; });
  }
  void remove(const std::string& file) const { fs::remove(path(file)); }
  /// The program's mistake, without the folder's name.
  std::string mistake(const Words& more = {}) const {
    Words words{"--load", path(), "--prompt", kPrompt};
    words.insert(words.end(), more.begin(), more.end());
    const std::string text = pretrained_test::mistake(words);
    for (const char* mark : {"/", ": "})
      if (text.starts_with(path() + mark)) return text.substr((path() + mark).size());
    return text;
  }
  /// The mistake after the member of config.json became another one.
  std::string mistake_with(const std::string& key, const Json& value) const {
    const Json before = json("config.json");
    set("config.json", "/" + key, value);
    std::string text = mistake();
    write_file(path("config.json"), before.dump());
    REQUIRE(text.starts_with("config.json: "));
    return text.substr(13);
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("a folder's model writes what transformers writes, from the same logits") {
  const TemporaryFile out("pretrained_test.safetensors", "");
  for (const std::string model : {"gpt2", "llama"}) {
    CAPTURE(model);
    const ProgramOutput output = gpt({"--load", folder_of(model), "--prompt", kPrompt, "--generate",
                                      "12", "--temperature", "0", "--logits", out.path()});
    const Json expected = parse_json(golden_text("pretrained/" + model + "/expected.json"), model);
    CHECK(output.text == "generated   " + expected.at("generated").get<std::string>() + "\n");
    const TensorFile found(out.path()), reference(folder_of(model) + "/expected.safetensors");
    CHECK(found.names() == reference.names());
    CHECK(largest_distance(found["tokens"], reference["tokens"]) == 0);
    CHECK(largest_distance(found["logits"], reference["logits"]) < 1e-4);
  }
}

TEST_CASE("weights of a folder become bf16 for text, with logits near transformers'") {
  const TemporaryFile out("pretrained_test.safetensors", "");
  for (const std::string model : {"gpt2", "llama"}) {
    CAPTURE(model);
    gpt({"--load", folder_of(model), "--prompt", kPrompt, "--generate", "2", "--dtype", "bf16",
         "--logits", out.path()});
    const TensorFile found(out.path()), reference(folder_of(model) + "/expected.safetensors");
    const double largest = largest_distance(reference["logits"], Array(reference["logits"].type()));
    const double distance = largest_distance(found["logits"], reference["logits"]);
    CHECK(distance > 1e-4);
    CHECK(distance < 0.02 * largest);
  }
}

TEST_CASE("generation ends where generation_config.json, else config.json, ends texts") {
  const Copy llama("llama");
  const auto generated = [&] {
    return gpt({"--load", llama.path(), "--prompt", kPrompt, "--generate", "4", "--temperature",
                "0"})
        .text;
  };
  const std::string whole = generated();
  const std::string first = whole.substr(12 + kPrompt.size(), 1);
  const Json vocabulary = llama.json("tokenizer.json").at("model").at("vocab");
  const Json stops = {7, vocabulary.at(first)};
  CHECK(whole.size() > 13 + kPrompt.size());
  llama.set("generation_config.json", "/eos_token_id", stops);
  CHECK(generated() == "generated   " + kPrompt + "\n");
  llama.remove("generation_config.json");
  CHECK(generated() == whole);
  llama.set("config.json", "/eos_token_id", stops);
  CHECK(generated() == "generated   " + kPrompt + "\n");
}

TEST_CASE("a folder's model is trained on, and saved as transformers has it") {
  const TemporaryFile saved("pretrained_test_saved.safetensors", ""),
      losses("pretrained_test.csv", ""), out("pretrained_test_out.safetensors", "");
  const std::string folder = folder_of("llama");
  const Words train{"--load",     folder,    "--data",     ALPA_SOURCE_DIR "/README.md",
                    "--devices",  "2",       "--backend",  "cpu",
                    "--sequence", "16",      "--batch",    "4",
                    "--quiet",    "--steps", "20",         "--learning-rate",
                    "0.01",       "--save",  saved.path(), "--log",
                    losses.path()};
  const ProgramOutput output = gpt(train);
  CAPTURE(output.text);
  REQUIRE(output.status == 0);
  const std::string log = losses.content();
  const auto loss = [&](int step) {
    return std::stod(
        log.substr(log.find("\n" + std::to_string(step) + ",") + 2 + std::to_string(step).size()));
  };
  CHECK(loss(20) < 0.9 * loss(1));
  // The weights in the place of the folder's.
  const Copy trained("llama");
  trained.remove("model.safetensors.index.json");
  write_file(trained.path("model.safetensors"), saved.content());
  const Words text{"--load", trained.path(), "--prompt", kPrompt, "--logits", out.path()};
  CHECK(gpt(text).status == 0);
  CHECK(largest_distance(TensorFile(out.path())["logits"],
                         TensorFile(folder + "/expected.safetensors")["logits"]) > 0.1);
}

TEST_CASE("rotary positions are read as transformers wrote them before version 5") {
  const Copy llama("llama");
  llama.change("config.json", [](Json& config) {
    Json rotary = config.at("rope_parameters");
    config.erase("rope_parameters");
    config["rope_theta"] = rotary.at("rope_theta");
    rotary.erase("rope_theta");
    config["rope_scaling"] = rotary;
  });
  const auto scaling = [&] { return models::read_pretrained(llama.path()).decoder; };
  CHECK(scaling().rotary_base == 500);
  CHECK(scaling().rotary_scaling->original_positions == 32);
  CHECK(scaling().rotary_scaling->factor == 8);
  llama.set("config.json", "/rope_scaling", {{"type", "linear"}, {"factor", 4}});
  CHECK(scaling().rotary_scaling->original_positions == 0);
  CHECK(scaling().rotary_scaling->factor == 4);
  llama.set("config.json", "/rope_scaling", nullptr);
  CHECK(!scaling().rotary_scaling);
}

TEST_CASE("flags that a folder decides are refused, and so are lengths beyond its positions") {
  const Copy gpt2("gpt2");
  for (const auto& [flag, value] :
       {std::pair("--hidden", "12"), std::pair("--kind", "gpt"), std::pair("--vocabulary", "304"),
        std::pair("--rotary-base", "5"), std::pair("--model", "125M")})
    CHECK(gpt2.mistake({flag, value}) == std::string(flag) + " has no effect beside --load " +
                                             gpt2.path() + ", whose config.json decides it");
  CHECK(gpt2.mistake({"--sequence", "129"}) == "--sequence is 129, but " + gpt2.path() +
                                                   "/config.json has 128 positions; give at most "
                                                   "as many");
  CHECK(gpt2.mistake({"--generate", "126"}) ==
        "generate: a prompt of 4 tokens and 126 more exceed the model's sequence of 128");
  CHECK(gpt2.mistake({"--plan-only"}) == "--prompt has no effect without --generate");
}

TEST_CASE("configurations of other models are refused") {
  const Copy gpt2("gpt2"), llama("llama");
  CHECK(gpt2.mistake_with("model_type", "gpt_neox") ==
        "model_type: found \"gpt_neox\", expected \"gpt2\", \"llama\", \"qwen2\" or "
        "\"mistral\"");
  CHECK(gpt2.mistake_with("activation_function", "gelu") ==
        "activation_function: found \"gelu\", expected \"gelu_new\" or \"gelu_pytorch_tanh\"");
  CHECK(gpt2.mistake_with("scale_attn_by_inverse_layer_idx", true) ==
        "scale_attn_by_inverse_layer_idx: found true, expected false");
  CHECK(gpt2.mistake_with("tie_word_embeddings", false) ==
        "tie_word_embeddings: found false, expected true");
  CHECK(gpt2.mistake_with("n_head", 5) == "n_head: found 5, expected a divisor of the width 12");
  CHECK(llama.mistake_with("hidden_act", "gelu") ==
        "hidden_act: found \"gelu\", expected \"silu\"");
  CHECK(llama.mistake_with("attention_bias", 1) ==
        "attention_bias: found 1, expected true or false");
  CHECK(llama.mistake_with("mlp_bias", true) == "mlp_bias: found true, expected false");
  CHECK(llama.mistake_with("head_dim", 8) ==
        "head_dim: found 8, expected 4, the width by the heads");
  CHECK(llama.mistake_with("num_key_value_heads", 3) ==
        "num_key_value_heads: found 3, expected a divisor of the 4 heads");
  CHECK(llama.mistake_with("rope_parameters", {{"rope_type", "yarn"}}) ==
        "rope_parameters.rope_type: found \"yarn\", expected \"default\", \"linear\" or "
        "\"llama3\"");
  CHECK(llama.mistake_with("rope_parameters", {{"rope_type", "linear"}}) ==
        "rope_parameters.factor is missing");
  CHECK(llama.mistake_with("rope_parameters/high_freq_factor", 1) ==
        "rope_parameters.high_freq_factor: found 1, expected a number above 1");
  CHECK(llama.mistake_with("rope_parameters/partial_rotary_factor", 0.5) ==
        "rope_parameters.partial_rotary_factor: found 0.5, expected 1");
}

TEST_CASE("windows of attention are refused where they are narrower than the positions") {
  const Copy mistral("llama"), qwen2("llama");
  mistral.set("config.json", "/model_type", "mistral");
  const std::int64_t positions = mistral.json("config.json").at("max_position_embeddings");
  const std::string expected =
      fmt::format(", expected null, or at least the {} positions", positions);
  CHECK(mistral.mistake_with("sliding_window", positions - 1) ==
        fmt::format("sliding_window: found {}{}", positions - 1, expected));
  for (const Json& wide : {Json(positions), Json(nullptr)}) {
    mistral.set("config.json", "/sliding_window", wide);
    CHECK(models::read_pretrained(mistral.path()).decoder.hidden == 16);
  }
  // transformers gives it a window of 4096 where the key is missing
  mistral.change("config.json", [](Json& config) { config.erase("sliding_window"); });
  CHECK(models::read_pretrained(mistral.path()).decoder.hidden == 16);
  CHECK(mistral.mistake_with("max_position_embeddings", 4097) == "sliding_window is missing");
  qwen2.set("config.json", "/model_type", "qwen2");
  qwen2.set("config.json", "/sliding_window", 4);  // without effect
  CHECK(qwen2.mistake_with("use_sliding_window", true) ==
        "use_sliding_window: found true, expected false");
}

TEST_CASE("every field of config.json must be of its kind") {
  const Copy gpt2("gpt2"), llama("llama");
  for (const char* key : {"n_embd", "n_head", "n_layer", "n_positions", "vocab_size"})
    CHECK(gpt2.mistake_with(key, 0).starts_with(std::string(key) +
                                                ": found 0, expected a whole number from 1 to"));
  for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads", "max_position_embeddings", "vocab_size"})
    CHECK(llama.mistake_with(key, "x").starts_with(
        std::string(key) + ": found \"x\", expected a whole number from 1 to"));
  CHECK(llama.mistake_with("rms_norm_eps", 0) ==
        "rms_norm_eps: found 0, expected a number above 0");
  CHECK(llama.mistake_with("tie_word_embeddings", 1) ==
        "tie_word_embeddings: found 1, expected true or false");
  CHECK(llama.mistake_with("rope_parameters", 7) == "rope_parameters: found 7, expected an object");
  CHECK(llama.mistake_with("model_type", nullptr) == "model_type: found null, expected a text");
  llama.set("generation_config.json", "/eos_token_id", "end");
  CHECK(llama.mistake() ==
        "generation_config.json: eos_token_id: found \"end\", expected a whole number from 0 to "
        "2147483647");
}

TEST_CASE("a folder without a file, or with a damaged one, is refused before any work") {
  const auto without = [](const std::string& file, const Words& more = {}) {
    const Copy llama("llama");
    llama.remove(file);
    return llama.mistake(more);
  };
  CHECK(without("config.json") == "config.json: cannot be read: No such file or directory");
  CHECK(without("model-00002-of-00002.safetensors")
            .starts_with("model-00002-of-00002.safetensors: "));
  CHECK(without("model.safetensors.index.json") ==
        "has neither model.safetensors nor model.safetensors.index.json; save_pretrained of "
        "transformers writes one of them");
  CHECK(without("tokenizer.json") == "has neither tokenizer.json nor vocab.json with merges.txt");
  const Copy llama("llama");
  write_file(llama.path("config.json"), "{\"model_type\": \"llama\",}");
  CHECK(llama.mistake() ==
        "config.json: line 1, column 24: not valid JSON; check for a missing comma, quote or "
        "bracket just before");
  write_file(llama.path("config.json"), "[]");
  CHECK(llama.mistake() == "config.json: is a list, not an object");
}

TEST_CASE("weights and tokens that do not go with config.json are refused") {
  const Copy llama("llama"), gpt2("gpt2");
  llama.set("config.json", "/num_hidden_layers", 3);
  CHECK(llama.mistake().starts_with(
      "model.safetensors.index.json: has no tensor \"model.layers.2.input_layernorm.weight\""));
  llama.set("config.json", "/num_hidden_layers", 1);
  CHECK(llama.mistake().find("but the decoder has 1 layers") != std::string::npos);
  gpt2.set("config.json", "/n_embd", 24);
  CHECK(gpt2.mistake().find("is f32[304, 24], but tensor \"transformer.wte.weight\"") !=
        std::string::npos);
  // A token of the prompt beyond the table of the embedding.
  gpt2.set("config.json", "/vocab_size", 10);
  CHECK(gpt2.mistake() == "--prompt has token 32, but vocab_size of " + gpt2.path() +
                              "/config.json is 10; give at least the tokenizer's 304");
  const Words train{"--load",    gpt2.path(), "--data", ALPA_SOURCE_DIR "/README.md",
                    "--backend", "cpu"};
  CHECK(gpt(train).text.ends_with("alpa-gpt: vocab_size of " + gpt2.path() +
                                  "/config.json is 10, but the tokenizer has 304 tokens; give at "
                                  "least as many\n"));
}

}  // namespace pretrained_test
