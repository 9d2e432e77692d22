// tools/given_run.cc — which framework a command or file is of, and the models that they name
#include "tools/given_run.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "alpa/models/pretrained.h"
#include "src/base/file.h"

namespace plan {

using namespace alpa;
using models::DecoderOptions;

namespace {

constexpr FileKind kSettingsFile{"settings of a run", 1 << 20};
constexpr std::int64_t kLlamaTokens = 32000;

/// Llama 2 has a size that Llama lacks.
constexpr models::DecoderSize kLlama2Large{"70B", 80, 8192, 64, 28672, 8, kLlamaTokens};

DecoderOptions decoder_of_size(models::DecoderKind kind, const models::DecoderSize& size) {
  const bool llama = kind == models::DecoderKind::llama;
  DecoderOptions o{.kind = kind,
                   .layers = size.layers,
                   .hidden = size.hidden,
                   .heads = size.heads,
                   .vocabulary = size.vocabulary > 0 ? size.vocabulary
                                 : llama             ? kLlamaTokens
                                                     : 51200,
                   .feed_forward = size.feed_forward,
                   .head_bias = false,
                   .tied_head = !llama};
  o.key_heads = size.key_heads, o.rotary_base = size.rotary_base;
  return o;
}

/// A file that a command names: beside the command's own, or as it is written.
std::string beside(const RunSource& source, const std::string& path) {
  const std::filesystem::path near = std::filesystem::path(source.name).parent_path() / path;
  if (std::filesystem::exists(near)) return near.string();
  require(std::filesystem::exists(path), "{}: its file {} is not there; put it beside the command",
          excerpt(source.name), excerpt(path));
  return path;
}

bool is_maxtext(const Settings& given) {
  return std::ranges::any_of(given.keys(), [](const std::string& key) {
    return key.ends_with("_parallelism") || key == "per_device_batch_size" || key == "base_emb_dim";
  });
}

/// A MaxText command: words win over the YAML that it names.
GivenRun maxtext_command(const RunSource& source, const Settings& words) {
  if (!words.has("config")) return maxtext_run(source, words);
  const std::string path = beside(source, words.text("config"));
  Settings given = read_yaml(read_file(path, kSettingsFile), path);
  for (const std::string& key : words.keys())
    if (!key.starts_with("-")) given.set(key, words.text(key));
  return maxtext_run(source, given);
}

GivenRun run_of_command(const RunSource& source) {
  const Settings words = read_words(source.text, source.name);
  if (is_maxtext(words)) return maxtext_command(source, words);
  for (const char* flag : {"--deepspeed", "--deepspeed_config", "--deepspeed_config_file"}) {
    if (!words.text(flag).ends_with(".json") || words.has("--num-layers")) continue;
    const std::string path = beside(source, words.text(flag));
    return deepspeed_run(source, read_json(read_file(path, kSettingsFile), path), words);
  }
  return megatron_run(words, source.vocabulary);
}

}  // namespace

DecoderOptions llama_of(const std::string& generation, const std::string& size,
                        const std::string& origin) {
  std::string upper = size;
  std::ranges::transform(upper, upper.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const bool third = generation.starts_with("llama3");
  if (generation == "llama2" && upper == kLlama2Large.name)
    return decoder_of_size(models::DecoderKind::llama, kLlama2Large);
  const bool known = third || generation == "llama2" || generation == "llama";
  for (const models::DecoderSize& row : models::kLlamaSizes)
    if (known && row.name == upper && (row.vocabulary > 0) == third)
      return decoder_of_size(models::DecoderKind::llama, row);
  fail("{}: model {} {} is not known here; give its config.json as --model", excerpt(origin),
       excerpt(generation), excerpt(size));
}

DecoderOptions decoder_of(const RunSource& source) {
  require(!source.model.empty(),
          "{}: it says no model; give --model: a folder of Hugging Face's, or its config.json",
          excerpt(source.name));
  if (const std::size_t blank = source.model.find(' '); blank != std::string::npos)
    return llama_of(source.model.substr(0, blank), source.model.substr(blank + 1), "--model");
  const bool folder = std::filesystem::is_directory(source.model);
  return models::read_decoder_options(source.model + (folder ? "/config.json" : ""));
}

GivenRun read_run(const RunSource& source) {
  const auto is = [&](const char* suffix) { return source.name.ends_with(suffix); };
  if (is(".json"))
    return deepspeed_run(source, read_json(source.text, source.name), Settings(source.name));
  if (is(".toml")) return torchtitan_run(source, read_toml(source.text, source.name));
  if (is(".py"))
    return torchtitan_run(source, read_python(source.text, source.name, source.recipe));
  if (!is(".yml") && !is(".yaml")) return run_of_command(source);
  const Settings yaml = read_yaml(source.text, source.name);
  if (is_maxtext(yaml)) return maxtext_run(source, yaml);
  return megatron_run(megatron_flags(yaml), source.vocabulary);
}

}  // namespace plan
