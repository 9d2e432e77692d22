// Hugging Face's Qwen2, Mistral and Llama with biases: logits against loops over elements, which
// agree with transformers' own logits of a Llama.
#include <alpa/train/safetensors.h>
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "src/base/file.h"
#include "src/base/json.h"
#include "support/difference.h"
#include "support/golden.h"
#include "support/program.h"
#include "support/temporary_file.h"
#include "support/temporary_folder.h"

namespace llama_biases_test {

using namespace alpa;
using namespace alpa::testing;
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::json;
using Row = std::vector<double>;
using Rows = std::vector<Row>;

/// LlamaForCausalLM of transformers, written out.
struct Reference {
  std::map<std::string, Array> tensors;
  Json config;

  std::int64_t size(const char* key) const { return config.at(key); }
  const std::vector<double> numbers(const std::string& name) const {
    return tensors.at(name).to_doubles();
  }

  /// x · weightᵀ + bias, if there is one.
  Rows linear(const Rows& x, const std::string& name) const {
    const Row weight = numbers(name + ".weight"),
              bias = tensors.contains(name + ".bias") ? numbers(name + ".bias") : Row();
    const std::size_t width = x[0].size(), features = weight.size() / width;
    Rows y(x.size(), Row(features));
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t f = 0; f < features; ++f) {
        y[t][f] = bias.empty() ? 0 : bias[f];
        for (std::size_t c = 0; c < width; ++c) y[t][f] += x[t][c] * weight[f * width + c];
      }
    return y;
  }
  Rows norm(Rows x, const std::string& name) const {
    const Row scale = numbers(name + ".weight");
    for (Row& row : x) {
      double squares = 0;
      for (double v : row) squares += v * v / static_cast<double>(row.size());
      const double size = std::sqrt(squares + config.at("rms_norm_eps").get<double>());
      for (std::size_t c = 0; c < row.size(); ++c) row[c] *= scale[c] / size;
    }
    return x;
  }
  /// Turns of a pair per position, slower for long waves as in Llama 3.1.
  double frequency(std::int64_t pair, std::int64_t width) const {
    const Json& r = config.at("rope_parameters");
    const double f = std::pow(r.at("rope_theta").get<double>(),
                              -2.0 * static_cast<double>(pair) / static_cast<double>(width));
    if (r.at("rope_type") == "default") return f;
    const double factor = r.at("factor"), low = r.at("low_freq_factor"),
                 high = r.at("high_freq_factor"),
                 turns = r.at("original_max_position_embeddings").get<double>() * f / (2 * M_PI);
    if (turns > high) return f;
    if (turns < low) return f / factor;
    const double smooth = (turns - low) / (high - low);
    return (1 - smooth) * f / factor + smooth * f;
  }
  void rotate(Rows& x, std::int64_t width) const {
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t first = 0; first < x[t].size(); first += width)
        for (std::int64_t i = 0; i < width / 2; ++i) {
          const double angle = static_cast<double>(t) * frequency(i, width);
          double &a = x[t][first + i], &b = x[t][first + i + width / 2];
          const double turned = a * std::cos(angle) - b * std::sin(angle);
          b = b * std::cos(angle) + a * std::sin(angle);
          a = turned;
        }
  }
  Rows attention(const Rows& x, const std::string& name) const {
    const std::int64_t heads = size("num_attention_heads"), keys = size("num_key_value_heads"),
                       width = size("hidden_size") / heads;
    Rows q = linear(x, name + ".q_proj"), k = linear(x, name + ".k_proj");
    const Rows v = linear(x, name + ".v_proj");
    rotate(q, width), rotate(k, width);
    Rows y(x.size(), Row(heads * width));
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t key = h / (heads / keys) * width;
        Row p;
        double total = 0;
        for (std::size_t s = 0; s <= t; ++s) {
          double score = 0;
          for (std::int64_t d = 0; d < width; ++d) score += q[t][h * width + d] * k[s][key + d];
          p.push_back(std::exp(score / std::sqrt(static_cast<double>(width))));
          total += p.back();
        }
        for (std::size_t s = 0; s <= t; ++s)
          for (std::int64_t d = 0; d < width; ++d)
            y[t][h * width + d] += p[s] / total * v[s][key + d];
      }
    return linear(y, name + ".o_proj");
  }
  Rows feed_forward(const Rows& x, const std::string& name) const {
    Rows gate = linear(x, name + ".gate_proj");
    const Rows up = linear(x, name + ".up_proj");
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t f = 0; f < gate[t].size(); ++f)
        gate[t][f] *= up[t][f] / (1 + std::exp(-gate[t][f]));
    return linear(gate, name + ".down_proj");
  }
  /// Of all tokens, one behind the other.
  Row logits(const std::vector<double>& tokens) const {
    const Row table = numbers("model.embed_tokens.weight");
    const std::int64_t width = size("hidden_size");
    Rows x;
    for (double token : tokens) {
      const auto begin = table.begin() + static_cast<std::ptrdiff_t>(token) * width;
      x.emplace_back(begin, begin + width);
    }
    const auto add = [&](const Rows& y) {
      for (std::size_t t = 0; t < x.size(); ++t)
        for (std::size_t c = 0; c < x[t].size(); ++c) x[t][c] += y[t][c];
    };
    for (std::int64_t l = 0; l < size("num_hidden_layers"); ++l) {
      const std::string block = fmt::format("model.layers.{}.", l);
      add(attention(norm(x, block + "input_layernorm"), block + "self_attn"));
      add(feed_forward(norm(x, block + "post_attention_layernorm"), block + "mlp"));
    }
    Row all;
    for (const Row& row : linear(norm(x, "model.norm"), "model.embed_tokens"))
      all.insert(all.end(), row.begin(), row.end());
    return all;
  }
};

/// The fixture's Llama.
Reference llama() {
  const TensorFile file(golden_path("pretrained/llama/model.safetensors.index.json"));
  Reference reference{{}, parse_json(golden_text("pretrained/llama/config.json"), "config.json")};
  for (const std::string& name : file.names()) reference.tensors[name] = file[name];
  return reference;
}

/// The same with other biases in all blocks.
Reference with_biases(const std::vector<std::string>& layers) {
  Reference reference = llama();
  int n = 0;
  for (int block = 0; block < 2; ++block)
    for (const std::string& layer : layers) {
      const std::string name = fmt::format("model.layers.{}.self_attn.{}", block, layer);
      std::vector<float> bias;
      for (std::int64_t i = 0; i < reference.tensors.at(name + ".weight").shape()[0]; ++i)
        bias.push_back(static_cast<float>(std::sin(++n)));
      reference.tensors[name + ".bias"] =
          Array(bias, {static_cast<std::int64_t>(bias.size())}).cast(bf16);
    }
  return reference;
}

/// alpa-gpt's logits of a folder with these weights and this configuration differ little from the
/// reference's, and the file that it saves holds the same tensors.
void check_logits(const Reference& reference) {
  const TemporaryFolder folder("llama_biases_test");
  const TemporaryFile out("llama_biases_test.safetensors", ""),
      saved("llama_biases_test_saved.safetensors", "");
  fs::create_directories(folder.path());
  fs::copy_file(golden_path("pretrained/llama/tokenizer.json"), folder.path() + "/tokenizer.json");
  write_file(folder.path() + "/config.json", reference.config.dump());
  write_safetensors(folder.path() + "/model.safetensors", reference.tensors);
  const ProgramOutput output =
      run_program(ALPA_PROGRAMS "/alpa-gpt", {"--load", folder.path(), "--prompt", "A plan to try",
                                              "--generate", "2", "--logits", out.path()});
  CAPTURE(output.text);
  REQUIRE(output.status == 0);
  const TensorFile found(out.path());
  const Row expected = reference.logits(found["tokens"].to_doubles());
  CHECK(largest_difference(found["logits"].to_doubles(), expected, 1) < 1e-4);
  REQUIRE(run_program(ALPA_PROGRAMS "/alpa-gpt",
                      {"--load", folder.path(), "--steps", "1", "--learning-rate", "1e-9",
                       "--sequence", "8", "--batch", "2", "--devices", "1", "--backend", "cpu",
                       "--save", saved.path(), "--quiet"})
              .status == 0);
  CHECK(TensorFile(saved.path()).names() ==
        TensorFile(folder.path() + "/model.safetensors").names());
}

}  // namespace

TEST_CASE("the reference gives transformers' logits of a Llama") {
  const TensorFile expected(golden_path("pretrained/llama/expected.safetensors"));
  CHECK(largest_difference(llama().logits(expected["tokens"].to_doubles()),
                           expected["logits"].to_doubles(), 1) < 1e-4);
}

TEST_CASE("Qwen2 is read: biases of queries, keys and values, none behind them") {
  Reference qwen2 = with_biases({"q_proj", "k_proj", "v_proj"});
  qwen2.config.erase("attention_bias");
  qwen2.config.erase("head_dim");
  qwen2.config.update({{"model_type", "qwen2"},
                       {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e4}}},
                       {"use_sliding_window", false},
                       {"sliding_window", nullptr},
                       {"max_window_layers", 2}});
  check_logits(qwen2);
}

TEST_CASE("a Mistral without a window is read, as a Llama is") {
  Reference mistral = llama();
  mistral.config.update({{"model_type", "mistral"}, {"sliding_window", nullptr}});
  check_logits(mistral);
}

TEST_CASE("a Llama with attention_bias is read: biases of all four products") {
  Reference biased = with_biases({"q_proj", "k_proj", "v_proj", "o_proj"});
  biased.config["attention_bias"] = true;
  check_logits(biased);
}

}  // namespace llama_biases_test
