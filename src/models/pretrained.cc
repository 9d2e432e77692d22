// src/models/pretrained.cc — decoders' folders as transformers writes them
#include "alpa/models/pretrained.h"

#include <filesystem>
#include <limits>

#include "alpa/models/hugging_face.h"
#include "src/base/file.h"
#include "src/base/json.h"
#include "src/models/decoder_config.h"

namespace alpa::models {
namespace {

constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();  ///< tokens
constexpr std::size_t kMostBytes = std::size_t{1} << 28;  ///< of a tokenizer's file

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

/// Files that go with the weights, as far as a folder has them.
constexpr const char* kCopied[] = {"generation_config.json",
                                   "tokenizer.json",
                                   "tokenizer_config.json",
                                   "tokenizer.model",
                                   "special_tokens_map.json",
                                   "added_tokens.json",
                                   "vocab.json",
                                   "merges.txt",
                                   "chat_template.jinja"};

/// config.json as it was, with the element type of the weights as they are written.
void write_config(const std::string& from, const std::string& to, DType dtype) {
  nlohmann::ordered_json config =
      nlohmann::ordered_json::parse(read_file(from, {"", std::size_t{16} << 20}));
  const char* const name = dtype == bf16 ? "bfloat16" : dtype == f16 ? "float16" : "float32";
  for (const char* key : {"dtype", "torch_dtype"})  // the older name is the second
    if (config.contains(key)) config[key] = name;
  write_file(to, config.dump(2) + "\n");
}

}  // namespace

void check_save_pretrained(const std::string& folder, const Pretrained& model) {
  std::error_code absent;  // a folder that is not there yet is another one
  require(!std::filesystem::equivalent(folder, model.folder, absent),
          "{}: is the folder that the model was read from; give another one", excerpt(folder));
}

void save_pretrained(const TrainState& state, const std::string& folder, const Pretrained& model) {
  hugging_face_names(model.decoder);  // throws before anything is written
  check_save_pretrained(folder, model);
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  require(!failed, "{}: cannot be made: {}", excerpt(folder), failed.message());
  write_config(model.folder + "/config.json", folder + "/config.json",
               state["tokens.table"].type().dtype);
  for (const char* file : kCopied)
    if (const std::string from = fmt::format("{}/{}", model.folder, file); is_file(from))
      write_file(fmt::format("{}/{}", folder, file), read_file(from, {"", kMostBytes}));
  save_hugging_face(state, folder + "/model.safetensors", model.decoder);
}

Pretrained read_pretrained(const std::string& folder) {
  const JsonObject config(folder + "/config.json");
  Pretrained model{.folder = folder, .weights = weights_in(folder), .stop_tokens = {}};
  model.decoder = decoder_options(config);
  model.stop_tokens = stop_tokens(folder, config);
  return model;
}

}  // namespace alpa::models
