// Folders of Hugging Face's transformers (scripts/compare_transformers) in alpa-gpt.
#include <alpa/train/safetensors.h>
#include <doctest/doctest.h>

#include <cctype>
#include <filesystem>
#include <random>
#include <sstream>

#include "alpa/models/pretrained.h"
#include "src/base/file.h"
#include "src/base/json.h"
#include "support/difference.h"
#include "support/golden.h"
#include "support/nightly.h"
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

/// The largest magnitude of a number.
double largest_number(const Array& x) {
  const std::vector<double> numbers = x.to_doubles();
  return largest_distance(numbers, std::vector<double>(numbers.size()));
}

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
  const std::string beyond_windows = "A plan of extraordinary length";
  for (const auto& [model, prompt] :
       {std::pair<std::string, std::string>("gpt2", kPrompt),
        {"llama", kPrompt},
        {"qwen3-window", beyond_windows},  // norms of heads, wide heads, a window
        {"mixtral", beyond_windows},       // experts
        {"gemma2", beyond_windows},        // soft caps, norms behind
        {"gemma3", beyond_windows},        // positions of blocks with a window
        {"phi4", beyond_windows}}) {       // packed weights, LongRoPE of a share of each head
    CAPTURE(model);
    const ProgramOutput output = gpt({"--load", folder_of(model), "--prompt", prompt, "--generate",
                                      "12", "--temperature", "0", "--logits", out.path()});
    const Json expected = parse_json(golden_text("pretrained/" + model + "/expected.json"), model);
    CHECK(output.text == "generated   " + expected.at("generated").get<std::string>() + "\n");
    const TensorFile found(out.path()), reference(folder_of(model) + "/expected.safetensors");
    CHECK(found.names() == reference.names());
    CHECK(largest_distance(found["tokens"], reference["tokens"]) == 0);
    CHECK(largest_distance(found["logits"], reference["logits"]) <
          1e-5 * largest_number(reference["logits"]));
  }
}

TEST_CASE("models of every family train the same on devices and in stages, and are saved whole") {
  const std::vector<Words> plans = {{"--devices", "4", "--method", "shard"},
                                    {"--devices", "2", "--method", "pipeline", "--stages", "2"}};
  std::size_t turn = 0;  // by day of each family one of the plans, in turn
  for (const std::string model : {"qwen3-window", "mixtral", "gemma2", "gemma3", "phi4"}) {
    CAPTURE(model);
    const auto losses = [&](const Words& more) {
      const TemporaryFile saved("pretrained_test_saved.safetensors", ""),
          log("pretrained_test.csv", "");
      Words words{"--load",     folder_of(model),
                  "--data",     ALPA_SOURCE_DIR "/README.md",
                  "--backend",  "cpu",
                  "--sequence", "16",
                  "--batch",    "4",
                  "--quiet",    "--steps",
                  "3",          "--save",
                  saved.path(), "--log",
                  log.path(),   "--micro-batches",
                  "2"};
      words.insert(words.end(), more.begin(), more.end());
      const ProgramOutput output = gpt(words);
      CAPTURE(output.text);
      REQUIRE(output.status == 0);
      const fs::path index = folder_of(model) + "/model.safetensors.index.json";
      CHECK(TensorFile(saved.path()).names() ==
            TensorFile(fs::exists(index) ? index.string() : folder_of(model) + "/model.safetensors")
                .names());
      std::vector<double> losses;
      std::istringstream lines(log.content());
      for (std::string line; std::getline(lines, line);)
        if (std::isdigit(line[0])) losses.push_back(std::stod(line.substr(line.find(',') + 1)));
      REQUIRE(losses.size() == 3);
      return losses;
    };
    const std::vector<double> one = losses({"--devices", "1"});
    CHECK(one[2] != one[0]);
    for (const Words& plan : sampled({plans[++turn % plans.size()]}, plans)) {
      const std::vector<double> found = losses(plan);
      for (std::size_t step = 0; step < 3; ++step)
        CHECK(found[step] == doctest::Approx(one[step]).epsilon(1e-5));
    }
  }
}

TEST_CASE("weights of a folder become bf16 for text, with logits near transformers'") {
  const TemporaryFile out("pretrained_test.safetensors", "");
  for (const std::string model : {"gpt2", "llama"}) {
    CAPTURE(model);
    gpt({"--load", folder_of(model), "--prompt", kPrompt, "--generate", "2", "--dtype", "bf16",
         "--logits", out.path()});
    const TensorFile found(out.path()), reference(folder_of(model) + "/expected.safetensors");
    const double largest = largest_number(reference["logits"]);
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
        "model_type: found \"gpt_neox\", expected \"gpt2\", \"llama\", \"mistral\", "
        "\"qwen2\", \"qwen3\", \"mixtral\", \"qwen3_moe\", \"gemma\", \"gemma2\", "
        "\"gemma3_text\", \"phi3\", \"deepseek_v2\" or \"deepseek_v3\"");
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
  CHECK(llama.mistake_with("head_dim", 5) ==
        "head_dim: found 5, expected an even number, as rotary positions turn pairs");
  CHECK(llama.mistake_with("num_key_value_heads", 3) ==
        "num_key_value_heads: found 3, expected a divisor of the 4 heads");
  CHECK(llama.mistake_with("rope_parameters", {{"rope_type", "dynamic"}}) ==
        "rope_parameters.rope_type: found \"dynamic\", expected \"default\", \"linear\", "
        "\"llama3\", \"yarn\" or \"longrope\"");
  CHECK(llama.mistake_with("rope_parameters", {{"rope_type", "longrope"}}) ==
        "rope_parameters.short_factor is missing");
  CHECK(llama.mistake_with("rope_parameters", {{"rope_type", "longrope"}, {"short_factor", {1}}}) ==
        "rope_parameters.short_factor: found a list, expected 2 numbers");
  CHECK(llama.mistake_with("rope_parameters",
                           {{"rope_type", "longrope"}, {"short_factor", {1, 0}}}) ==
        "rope_parameters.short_factor[1]: found 0, expected a number above 0");
  CHECK(llama.mistake_with("rope_parameters", {{"rope_type", "linear"}}) ==
        "rope_parameters.factor is missing");
  CHECK(llama.mistake_with("rope_parameters/high_freq_factor", 1) ==
        "rope_parameters.high_freq_factor: found 1, expected a number above 1");
  CHECK(llama.mistake_with("rope_parameters/partial_rotary_factor", 0.25) ==
        "rope_parameters.partial_rotary_factor: found 0.25, expected 1, or a share of the 4 "
        "elements of a head that is an even number");
}

TEST_CASE("windows are read as transformers has them, by family") {
  const Copy llama("llama");
  const auto variant = [&](const std::string& type, const Json& members) {
    const Json before = llama.json("config.json");
    llama.change("config.json", [&](Json& config) {
      config["model_type"] = type;
      config.update(members);
    });
    const models::DecoderVariant read = models::read_pretrained(llama.path()).decoder.variant;
    write_file(llama.path("config.json"), before.dump());
    return read;
  };
  CHECK(variant("mistral", {{"sliding_window", 9}}).window == 9);
  CHECK(variant("mistral", {{"sliding_window", nullptr}}).window == 0);
  CHECK(variant("mistral", Json::object()).window == 4096);  // transformers' default
  CHECK(variant("mixtral", {{"num_local_experts", 4}, {"num_experts_per_tok", 2}}).window == 0);
  CHECK(variant("qwen2", {{"sliding_window", 4}}).window == 0);  // without effect
  const models::DecoderVariant qwen2 = variant(
      "qwen2", {{"sliding_window", 4}, {"use_sliding_window", true}, {"max_window_layers", 1}});
  CHECK(qwen2.window == 4);
  CHECK(qwen2.windowed == std::vector{false, true});
  // Before transformers 4.50, Gemma's files did not say which blocks have the window.
  const Json gemma = {{"hidden_activation", "gelu_pytorch_tanh"}, {"query_pre_attn_scalar", 4}};
  CHECK(variant("gemma2", gemma).windowed == std::vector{true, false});
  Json every_second = gemma;
  every_second.update({{"sliding_window_pattern", 1},
                       {"rope_parameters", nullptr},
                       {"rope_theta", 5e5},
                       {"rope_local_base_freq", 77}});
  CHECK(variant("gemma3_text", every_second).windowed == std::vector{false, false});
  CHECK(variant("gemma3_text", every_second).windowed_rotary_base == 77);
}

TEST_CASE("members that go with a family are checked") {
  const Copy llama("llama");
  const auto mistake = [&](const std::string& type, const std::string& key, const Json& value) {
    llama.set("config.json", "/model_type", type);
    return llama.mistake_with(key, value);
  };
  CHECK(mistake("gemma", "hidden_act", "silu") ==
        "hidden_act: found \"silu\", expected \"gelu_pytorch_tanh\" or \"gelu\"");
  CHECK(mistake("mixtral", "num_local_experts", 0) ==
        "num_local_experts: found 0, expected a whole number from 1 to 4096");
  llama.set("config.json", "/num_local_experts", 4);
  CHECK(mistake("mixtral", "num_experts_per_tok", 5) ==
        "num_experts_per_tok: found 5, expected a whole number from 1 to 4");
  llama.set("config.json", "/num_experts_per_tok", 2);
  CHECK(mistake("qwen3_moe", "norm_topk_prob", false) ==
        "norm_topk_prob: found false, expected true");
  llama.set("config.json", "/hidden_act", "gelu");
  llama.set("config.json", "/query_pre_attn_scalar", 4);
  CHECK(mistake("gemma2", "layer_types", {"full_attention"}) ==
        "layer_types: found a list, expected one for each of 2 blocks");
  CHECK(mistake("gemma2", "layer_types", {"full_attention", "chunked_attention"})
            .starts_with("layer_types: found a list, expected \"full_attention\" and"));
}

TEST_CASE("mutated configurations are read, or refused in a line") {
  const TemporaryFolder folder("pretrained_test_mutated");
  fs::create_directories(folder.path());
  const std::string path = folder.path() + "/config.json";
  std::mt19937 random(11);
  const auto below = [&](std::size_t most) { return static_cast<std::size_t>(random() % most); };
  int read = 0, refused = 0;
  for (const std::string model :
       {"gpt2", "llama", "qwen3-window", "mixtral", "gemma2", "gemma3", "phi4"}) {
    const std::string config = golden_text("pretrained/" + model + "/config.json");
    for (int i = 0; i < 430; ++i) {
      std::string text = config;
      for (std::size_t change = 0; change <= below(3); ++change) {
        const std::size_t at = below(text.size());
        const std::size_t digit = text.find_first_of("0123456789", at);
        if (below(2) == 0 && digit != text.npos)
          text[digit] = "0123456789-.e"[below(13)];
        else if (below(3) == 0)
          text.erase(at, 1 + below(8));
        else
          text[at] = "0123456789[]{}\"':,tfn"[below(22)];
      }
      write_file(path, text);
      CAPTURE(text);
      try {
        const models::DecoderOptions options = models::read_decoder_options(path);
        CHECK(options.layers >= 1);
        CHECK(options.heads >= 1);
        ++read;
      } catch (const Error& error) {
        const std::string mistake = error.what();
        CHECK(mistake.starts_with(path + ": "));
        CHECK(mistake.find('\n') == mistake.npos);
        ++refused;
      }
    }
  }
  CHECK(read > 500);
  CHECK(refused > 500);
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
  CHECK(without("tokenizer.json") ==
        "has neither tokenizer.json, nor tokenizer.model, nor vocab.json with merges.txt");
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
