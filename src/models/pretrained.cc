// src/models/pretrained.cc — decoders' folders as transformers writes them
#include "alpa/models/pretrained.h"

#include <filesystem>
#include <limits>

#include "alpa/models/hugging_face.h"
#include "src/base/file.h"
#include "src/base/json.h"
#include "src/models/decoder_config.h"
#include "src/models/gguf_config.h"
#include "src/models/pretrained_files.h"

namespace alpa::models {
namespace {

constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();  ///< tokens
constexpr std::size_t kMostBytes = std::size_t{1} << 28;  ///< of a tokenizer's file

bool is_file(const std::string& path) {
  std::error_code unreadable;  // is told by who opens it
  return std::filesystem::exists(path, unreadable);
}

}  // namespace

std::string weights_in(const std::string& folder) {
  for (const char* name : {"/model.safetensors", "/model.safetensors.index.json"})
    if (is_file(folder + name)) return folder + name;
  fail(
      "{}: has neither model.safetensors nor model.safetensors.index.json; save_pretrained of "
      "transformers writes one of them",
      excerpt(folder));
}

namespace {

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
                                   "vocab.txt",
                                   "preprocessor_config.json",
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

/// Tokens that end a text: of a sequence, or of a turn.
std::vector<std::int32_t> stop_tokens(const GgufFile& file) {
  const JsonObject metadata(file.path(), file.metadata());
  std::vector<std::int32_t> tokens;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"})
    if (metadata.has(key))
      tokens.push_back(static_cast<std::int32_t>(metadata.whole(key, 0, kMostTokens)));
  return tokens;
}

Pretrained read_gguf(const std::string& path) {
  const GgufFile file(path);
  return {.folder = path,
          .weights = path,
          .decoder = gguf_options(file),
          .stop_tokens = stop_tokens(file)};
}

}  // namespace

void check_other_folder(const std::string& folder, const std::string& from) {
  std::error_code absent;  // a folder that is not there yet is another one
  require(!std::filesystem::equivalent(folder, from, absent),
          "{}: is the folder that the model was read from; give another one", excerpt(folder));
}

void save_folder(const TrainState& state, const std::string& folder, const std::string& from,
                 const WeightMap& names) {
  check_other_folder(folder, from);
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  require(!failed, "{}: cannot be made: {}", excerpt(folder), failed.message());
  write_config(from + "/config.json", folder + "/config.json",
               state[names[0].parameter].type().dtype);
  for (const char* name : kCopied)
    if (const std::string file = fmt::format("{}/{}", from, name); is_file(file))
      write_file(fmt::format("{}/{}", folder, name), read_file(file, {"", kMostBytes}));
  save_weights(state, folder + "/model.safetensors", names, {{"format", "pt"}});
}

void check_save_pretrained(const std::string& folder, const Pretrained& model) {
  require(!is_gguf(model.folder),
          "{}: is no folder whose configuration and tokenizer could be copied; save another GGUF "
          "file, or weights alone",
          excerpt(model.folder));
  check_other_folder(folder, model.folder);
}

void save_pretrained(const TrainState& state, const std::string& folder, const Pretrained& model) {
  save_folder(state, folder, model.folder, hugging_face_names(model.decoder));
}

Pretrained read_pretrained(const std::string& folder) {
  if (is_gguf(folder) || folder.ends_with(".gguf")) return read_gguf(folder);
  const JsonObject config(folder + "/config.json");
  Pretrained model{.folder = folder, .weights = weights_in(folder), .stop_tokens = {}};
  model.decoder = decoder_options(config);
  require(model.decoder.variant.names != DecoderNames::none,
          "{}/config.json: \"model_type\" is \"{}\", whose models are planned (alpa plan), but not "
          "loaded; load one of another family",
          excerpt(folder), config.text("model_type"));
  model.stop_tokens = stop_tokens(folder, config);
  return model;
}

}  // namespace alpa::models
