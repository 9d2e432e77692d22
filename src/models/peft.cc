// src/models/peft.cc — adapters of decoders in folders of Hugging Face's PEFT
#include "alpa/models/peft.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "alpa/models/hugging_face.h"
#include "src/base/file.h"
#include "src/base/json.h"
#include "src/base/wildcard.h"
#include "src/models/json_object.h"

namespace alpa::models {
namespace {

constexpr const char* kConfig = "/adapter_config.json";
constexpr const char* kWeights = "/adapter_model.safetensors";
constexpr std::string_view kKernel = ".kernel", kWeight = ".weight";
constexpr std::int64_t kMostRank = 1 << 20;

/// A layer with an adapter: its name here, and its module's in transformers' model.
struct AdaptedLayer {
  std::string name, module;
};

/// The Dense layers of the decoder that `has_adapter` names. Throws Error if one of them is a part
/// of a module.
std::vector<AdaptedLayer> adapted_layers(
    const DecoderOptions& options, const std::function<bool(const AdaptedLayer&)>& has_adapter) {
  std::vector<AdaptedLayer> layers;
  for (const WeightName& weight : hugging_face_names(options)) {
    if (!weight.parameter.ends_with(kKernel)) continue;
    const std::string& tensor = weight.tensors[0];
    const AdaptedLayer layer{weight.parameter.substr(0, weight.parameter.size() - kKernel.size()),
                             tensor.substr(0, tensor.size() - kWeight.size())};
    if (!has_adapter(layer)) continue;
    require(!weight.start,
            "adapter of \"{}\": it is a part of \"{}\" in transformers' model, which has one "
            "adapter for all of it; leave the layer out of the targets",
            layer.name, layer.module);
    layers.push_back(layer);
  }
  return layers;
}

/// The tensor of a file: `part` is "A" or "B".
std::string tensor_of(const AdaptedLayer& layer, const char* part) {
  return fmt::format("base_model.model.{}.lora_{}.weight", layer.module, part);
}

WeightMap names_of(const std::vector<AdaptedLayer>& layers) {
  WeightMap map;
  for (const AdaptedLayer& layer : layers) {
    map.push_back({layer.name + ".lora_a", {tensor_of(layer, "A")}, true});
    map.push_back({layer.name + ".lora_b", {tensor_of(layer, "B")}, true});
  }
  return map;
}

/// Throws Error if an adapter computes what `Lora` does not.
void check_config(const JsonObject& config) {
  config.expect_one_of("peft_type", {"LORA"});
  config.expect_one_of("bias", {"none"});
  for (const char* key : {"use_dora", "use_rslora", "lora_bias", "use_qalora"})
    config.expect(key, false);
  for (const char* key : {"rank_pattern", "alpha_pattern", "modules_to_save",
                          "trainable_token_indices", "alora_invocation_tokens"})
    if (config.has(key) && !config.is_empty(key)) config.refuse(key, "null or nothing in it");
  // Other words (PiSSA, OLoRA) say that the model's own weights were changed, too.
  if (config.is_text("init_lora_weights")) config.expect_one_of("init_lora_weights", {"gaussian"});
}

Lora lora_of(const JsonObject& config) {
  return {.targets = {},
          .rank = config.whole("r", 1, kMostRank),
          .alpha = config.positive("lora_alpha"),
          .dropout = config.number_or("lora_dropout", 0)};
}

std::vector<AdaptedLayer> layers_in(const TensorFile& file, const DecoderOptions& options) {
  return adapted_layers(
      options, [&](const AdaptedLayer& layer) { return file.contains(tensor_of(layer, "A")); });
}

/// Throws Error if the file holds a tensor that belongs to none of the layers.
void check_names(const TensorFile& file, const std::vector<AdaptedLayer>& layers) {
  std::set<std::string> known;
  for (const WeightName& weight : names_of(layers)) known.insert(weight.tensors[0]);
  for (const std::string& name : file.names())
    require(known.contains(name),
            "{}: has tensor \"{}\", which is no adapter of a layer of this decoder", file.path(),
            excerpt(name));
  require(!layers.empty(), "{}: holds no adapter", file.path());
}

/// Last parts of modules' names where all of these have adapters, else whole names.
std::set<std::string> target_modules(const std::vector<AdaptedLayer>& layers,
                                     const DecoderOptions& options) {
  const auto last_part = [](const std::string& name) { return name.substr(name.rfind('.') + 1); };
  std::map<std::string, std::size_t> all, adapted;
  for (const WeightName& weight : hugging_face_names(options))
    if (weight.parameter.ends_with(kKernel) && !weight.start)
      ++all[last_part(weight.tensors[0].substr(0, weight.tensors[0].size() - kWeight.size()))];
  for (const AdaptedLayer& layer : layers) ++adapted[last_part(layer.module)];
  std::set<std::string> targets;
  for (const AdaptedLayer& layer : layers) {
    const std::string part = last_part(layer.module);
    targets.insert(adapted[part] == all[part] ? part : layer.module);
  }
  return targets;
}

}  // namespace

PeftAdapters read_peft(const std::string& folder, const DecoderOptions& options) {
  const JsonObject config(folder + kConfig);
  check_config(config);
  PeftAdapters adapters{.weights = folder + kWeights, .lora = lora_of(config)};
  const TensorFile file(adapters.weights);
  const std::vector<AdaptedLayer> layers = layers_in(file, options);
  check_names(file, layers);
  for (const AdaptedLayer& layer : layers) adapters.lora.targets.push_back(layer.name);
  return adapters;
}

void load_peft(TrainState& state, const PeftAdapters& adapters, const DecoderOptions& options) {
  const TensorFile file(adapters.weights);
  load_weights(state, file, names_of(layers_in(file, options)));
}

void check_peft(const DecoderOptions& options, const Lora& lora) {
  adapted_layers(options, [&](const AdaptedLayer& layer) {
    return std::ranges::any_of(
        lora.targets, [&](const std::string& target) { return matches(target, layer.name); });
  });
}

void save_peft(const TrainState& state, const std::string& folder, const DecoderOptions& options,
               const Lora& lora, const std::string& base) {
  std::set<std::string> parameters;
  for (const DistributedArray& parameter : state.parameters()) parameters.insert(parameter.name());
  const std::vector<AdaptedLayer> layers = adapted_layers(options, [&](const AdaptedLayer& layer) {
    return parameters.contains(layer.name + ".lora_a");
  });
  require(!layers.empty(), "save_peft: the state has no adapters of this decoder");
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  require(!failed, "{}: cannot be made: {}", excerpt(folder), failed.message());
  save_weights(state, folder + kWeights, names_of(layers), {{"format", "pt"}});
  nlohmann::ordered_json config = {{"peft_type", "LORA"},
                                   {"task_type", "CAUSAL_LM"},
                                   {"base_model_name_or_path", base},
                                   {"r", lora.rank},
                                   {"lora_alpha", lora.alpha},
                                   {"lora_dropout", lora.dropout},
                                   {"target_modules", target_modules(layers, options)},
                                   {"bias", "none"},
                                   {"fan_in_fan_out", options.kind == DecoderKind::gpt},
                                   {"inference_mode", true}};
  if (base.empty()) config["base_model_name_or_path"] = nullptr;
  write_file(folder + kConfig, config.dump(2) + "\n");
}

}  // namespace alpa::models
