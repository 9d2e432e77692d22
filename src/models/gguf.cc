// src/models/gguf.cc — decoders written to GGUF files
#include "alpa/models/gguf.h"

#include <filesystem>

#include "alpa/models/hugging_face.h"
#include "src/api/weight_tensors.h"
#include "src/base/file.h"
#include "src/base/json.h"
#include "src/models/gguf_config.h"
#include "src/train/gguf_tokenizer.h"
#include "src/train/gguf_weights.h"

namespace alpa::models {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr FileKind kTokenizerFile{"", 256 << 20};
constexpr std::string_view kTokenizerScope = "tokenizer.";

/// The element type, and its number in `general.file_type`.
struct Stored {
  const char* name;
  std::uint32_t file_type;
};
constexpr Stored kStored[] = {{"F32", 0}, {"F16", 1}, {"Q8_0", 7}};

/// The tokenizer's metadata in a GGUF file.
OrderedJson copied_tokenizer(const std::string& path, std::int64_t vocabulary) {
  const GgufFile file(path);
  OrderedJson metadata = OrderedJson::object();
  for (const auto& [key, value] : file.metadata().items())
    if (key.starts_with(kTokenizerScope)) metadata[key] = value;
  const auto tokens = metadata.find("tokenizer.ggml.tokens");
  require(tokens == metadata.end() || std::cmp_equal(tokens->size(), vocabulary),
          "{}: tokenizer.ggml.tokens: has {} tokens, but the decoder {}", path,
          tokens == metadata.end() ? 0 : tokens->size(), vocabulary);
  return metadata;
}

/// The folder's template of conversations, if it has one.
void add_chat_template(const std::string& folder, OrderedJson& metadata) {
  const std::string own = folder + "/chat_template.jinja",
                    among = folder + "/tokenizer_config.json";
  constexpr const char* kKey = "tokenizer.chat_template";
  std::error_code unreadable;  // is told by who opens it
  if (std::filesystem::exists(own, unreadable)) {
    metadata[kKey] = read_file(own, kTokenizerFile);
  } else if (std::filesystem::exists(among, unreadable)) {
    const Json json = parse_json(read_file(among, kTokenizerFile), among);
    const auto found = json.is_object() ? json.find("chat_template") : json.end();
    if (json.is_object() && found != json.end() && found->is_string()) metadata[kKey] = *found;
  }
}

/// The tokenizer's metadata: of the file or folder, or of none.
OrderedJson tokenizer_metadata(const Pretrained& model) {
  const std::int64_t vocabulary = model.decoder.vocabulary;
  if (model.folder.empty()) return {{"tokenizer.ggml.model", "none"}};
  if (is_gguf(model.folder)) return copied_tokenizer(model.folder, vocabulary);
  const std::string path = model.folder + "/tokenizer.json";
  OrderedJson metadata =
      gguf_tokenizer(parse_json(read_file(path, kTokenizerFile), path), path, vocabulary);
  constexpr const char* kStops[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"};
  for (std::size_t i = 0; i < std::min(model.stop_tokens.size(), std::size(kStops)); ++i)
    metadata[kStops[i]] = static_cast<std::uint32_t>(model.stop_tokens[i]);
  add_chat_template(model.folder, metadata);
  return metadata;
}

/// A decoder's file without its weights.
GgufConfig header_of(const Pretrained& model, const Stored& stored) {
  GgufConfig config = gguf_config(model.decoder);
  config.metadata["general.file_type"] = stored.file_type;
  config.metadata["general.quantization_version"] = 2U;
  config.metadata.update(tokenizer_metadata(model));
  return config;
}

/// The map to names of the file, and how each tensor is laid out there.
WeightMap gguf_names(const DecoderOptions& options, const GgufModel& model,
                     std::map<std::string, GgufTarget>& targets) {
  WeightMap map = hugging_face_names(options);
  for (WeightName& weight : map) {
    const GgufTarget target = gguf_target(model, weight.tensors[0]);
    if (target.layout == GgufLayout::transposed && weight.parameter.ends_with(".kernel"))
      weight.transposed = true;
    if (weight.stacked) weight.stacked = false, weight.axis = -1;
    weight.tensors = {target.name};
    targets[target.name] = target;
  }
  return map;
}

}  // namespace

void check_save_gguf(const std::string& path, const Pretrained& model) {
  std::error_code absent;  // a file that is not there yet is another one
  require(model.folder.empty() || !std::filesystem::equivalent(path, model.folder, absent),
          "{}: is the file that the model was read from; give another one", excerpt(path));
  header_of(model, kStored[0]);
}

void save_gguf(const TrainState& state, const std::string& path, const Pretrained& model,
               GgufType type) {
  check_save_gguf(path, model);
  const DecoderOptions& options = model.decoder;
  const Stored& stored = kStored[static_cast<std::size_t>(type)];
  const GgufConfig config = header_of(model, stored);
  const GgufModel of_layout{
      .architecture = config.metadata.at("general.architecture").get<std::string>(),
      .heads = options.heads,
      .key_heads = options.key_heads > 0 ? options.key_heads : options.heads};
  std::map<std::string, GgufTarget> targets;
  const WeightMap map = gguf_names(options, of_layout, targets);
  std::vector<GgufPart> parts;
  for (const auto& [name, weight] : weight_tensors(state, map))
    parts.push_back(gguf_part(targets.at(name), weight, of_layout, *gguf_type(stored.name)));
  if (const auto& factors = config.frequency_factors; !factors.empty())
    parts.push_back(gguf_part({"rope_freqs.weight"}, Array(factors, {std::ssize(factors)}),
                              of_layout, *gguf_type(stored.name)));
  write_gguf(path, config.metadata, parts);
}

}  // namespace alpa::models
