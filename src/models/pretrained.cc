// src/models/pretrained.cc — decoders' folders as transformers writes them
#include "alpa/models/pretrained.h"

#include <filesystem>
#include <limits>

#include "src/models/decoder_config.h"

namespace alpa::models {
namespace {

constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();  ///< tokens

bool is_file(const std::string& path) {
  std::error_code unreadable;  // is told by who opens it
  return std::filesystem::exists(path, unreadable);
}

std::string weights_in(const std::string& folder) {
  for (const char* name : {"/model.safetensors", "/model.safetensors.index.json"})
    if (is_file(folder + name)) return folder + name;
  fail(
      "{}: has neither model.safetensors nor model.safetensors.index.json; save_pretrained of "
      "transformers writes one of them",
      excerpt(folder));
}

/// Of generation_config.json, else of config.json.
std::vector<std::int32_t> stop_tokens(const std::string& folder, const JsonObject& config) {
  const auto read = [](const JsonObject& object) {
    const auto numbers = object.wholes("eos_token_id", kMostTokens);
    return std::vector<std::int32_t>(numbers.begin(), numbers.end());
  };
  constexpr const char* kName = "/generation_config.json";
  if (is_file(folder + kName)) {
    const JsonObject generation(folder + kName);
    if (generation.has("eos_token_id")) return read(generation);
  }
  return config.has("eos_token_id") ? read(config) : std::vector<std::int32_t>{};
}

}  // namespace

Pretrained read_pretrained(const std::string& folder) {
  const JsonObject config(folder + "/config.json");
  Pretrained model{.folder = folder, .weights = weights_in(folder), .stop_tokens = {}};
  model.decoder = decoder_options(config);
  model.stop_tokens = stop_tokens(folder, config);
  return model;
}

}  // namespace alpa::models
