// src/models/pretrained_encoder.cc — folders of BERT, ViT and ResNet as transformers writes them
#include "alpa/models/pretrained_encoder.h"

#include <set>

#include "src/models/encoder_config.h"
#include "src/models/pretrained_files.h"
#include "src/models/weight_names.h"

namespace alpa::models {
namespace {

constexpr std::string_view kPrefix = "bert.";
constexpr const char* kWords = "embeddings.word_embeddings.weight";

LayerNames bert_block() {
  return {{"attention.query", "attention.self.query"},
          {"attention.key", "attention.self.key"},
          {"attention.value", "attention.self.value"},
          {"attention.projection", "attention.output.dense"},
          {"attention_norm", "attention.output.LayerNorm"},
          {"feed_forward.up", "intermediate.dense"},
          {"feed_forward.down", "output.dense"},
          {"feed_forward_norm", "output.LayerNorm"}};
}

LayerNames vit_block() {
  return {{"attention.query", "attention.attention.query"},
          {"attention.key", "attention.attention.key"},
          {"attention.value", "attention.attention.value"},
          {"attention.projection", "attention.output.dense"},
          {"attention_norm", "layernorm_before"},
          {"feed_forward.up", "intermediate.dense"},
          {"feed_forward.down", "output.dense"},
          {"feed_forward_norm", "layernorm_after"}};
}

/// Adds the blocks. `place`: that of the encoder in the file.
void add_blocks(WeightMap& map, const EncoderOptions& o, const LayerNames& block,
                const std::string& place) {
  for (std::int64_t i = 0; i < o.layers; ++i)
    for (const LayerName& name : block) {
      const bool biased = o.query_bias || !name.tensor.starts_with("attention.attention.");
      add_layer(map, name, {.bias = biased}, fmt::format("encoder.blocks.{}.", i),
                fmt::format("{}encoder.layer.{}.", place, i));
    }
}

WeightMap names_of(const BertOptions& o) {
  const std::string place(o.head == BertHead::states ? "" : kPrefix);
  WeightMap map{{"tokens.table", {place + kWords}},
                {"positions.table", {place + "embeddings.position_embeddings.weight"}},
                {"token_types.table", {place + "embeddings.token_type_embeddings.weight"}}};
  add_layer(map, {"embedding_norm", "embeddings.LayerNorm"}, {}, "", place);
  add_blocks(map, o.encoder, bert_block(), place);
  if (o.head == BertHead::hidden_tokens) {
    add_layer(map, {"transform", "cls.predictions.transform.dense"});
    add_layer(map, {"transform_norm", "cls.predictions.transform.LayerNorm"});
    map.push_back({"head.bias", {"cls.predictions.bias"}});
    return map;
  }
  if (o.pooler || o.head == BertHead::classes)
    add_layer(map, {"pooler", "pooler.dense"}, {}, "", place);
  if (o.head == BertHead::classes) add_layer(map, {"classifier", "classifier"});
  return map;
}

WeightMap names_of(const VitOptions& o) {
  WeightMap map{{"embedding.class_token", {"vit.embeddings.cls_token"}},
                {"embedding.positions", {"vit.embeddings.position_embeddings"}}};
  add_layer(map, {"patches", "vit.embeddings.patch_embeddings.projection"}, {.convolution = true});
  add_blocks(map, o.encoder, vit_block(), "vit.");
  add_layer(map, {"norm", "vit.layernorm"});
  add_layer(map, {"head", "classifier"});
  return map;
}

/// Adds a convolution and its batch normalisation, with the running statistics.
void add_convolution(WeightMap& map, const std::string& layer, const std::string& tensor) {
  add_layer(map, {"conv", "convolution"}, {.bias = false, .convolution = true}, layer + ".",
            tensor + ".");
  const std::string norm = layer + ".norm.", place = tensor + ".normalization.";
  add_layer(map, {"norm", "normalization"}, {}, layer + ".", tensor + ".");
  map.push_back({norm + "mean", {place + "running_mean"}});
  map.push_back({norm + "variance", {place + "running_var"}});
}

WeightMap names_of(const WideResNetSize& o) {
  WeightMap map;
  add_convolution(map, "stem", "resnet.embedder.embedder");
  std::vector<std::string> branch{"middle", "expand"};
  if (!o.basic) branch.insert(branch.begin(), "reduce");
  for (std::size_t group = 0; group < o.blocks.size(); ++group)
    for (int i = 0; i < o.blocks[group]; ++i) {
      const std::string block = fmt::format("groups.{}.blocks.{}.", group, i),
                        place = fmt::format("resnet.encoder.stages.{}.layers.{}.", group, i);
      for (std::size_t layer = 0; layer < branch.size(); ++layer)
        add_convolution(map, block + branch[layer], fmt::format("{}layer.{}", place, layer));
      if (is_projected(o, group, i)) add_convolution(map, block + "project", place + "shortcut");
    }
  add_layer(map, {"head", "classifier.1"});
  return map;
}

/// The tensor's name in the file, which may have the prefix or not, and older names of norms.
std::string name_in(const TensorFile& file, const std::string& name) {
  const bool prefixed = name.starts_with(kPrefix);
  for (const std::string& place :
       {name, prefixed ? name.substr(kPrefix.size()) : std::string(kPrefix) + name}) {
    if (file.contains(place)) return place;
    const std::size_t norm = place.find("LayerNorm.");
    if (norm == place.npos) continue;
    const std::string older =
        place.substr(0, norm + 10) + (place.ends_with(".bias") ? "beta" : "gamma");
    if (file.contains(older)) return older;
  }
  return name;
}

/// The map to the names of the file. Throws Error if it has a head or layers that the model lacks.
WeightMap names_in(const TensorFile& file, const EncoderModel& model) {
  WeightMap map = hugging_face_names(model);
  std::set<std::string> read;
  for (WeightName& weight : map)
    for (std::string& tensor : weight.tensors) read.insert(tensor = name_in(file, tensor));
  for (const std::string& name : file.names())
    require(read.contains(name) || name.find("encoder.") == name.npos ||
                name.ends_with(".num_batches_tracked"),
            "{}: has tensor \"{}\", which the model of config.json lacks", file.path(),
            excerpt(name));
  constexpr const char* kHead = "cls.predictions.decoder.weight";
  const BertOptions* const bert = std::get_if<BertOptions>(&model);
  if (bert && bert->head == BertHead::hidden_tokens && file.contains(kHead))
    require(same_tensor(file, kHead, map[0].tensors[0]),
            "{}: tensor \"{}\" is not \"{}\", but BERT's head is the table of its embedding",
            file.path(), kHead, map[0].tensors[0]);
  return map;
}

}  // namespace

WeightMap hugging_face_names(const EncoderModel& model) {
  return std::visit([](const auto& options) { return names_of(options); }, model);
}

void load_hugging_face(TrainState& state, const TensorFile& file, const EncoderModel& model) {
  load_weights(state, file, names_in(file, model));
}

void check_hugging_face(const Graph& graph, const TensorFile& file, const EncoderModel& model) {
  check_weights(graph, file, names_in(file, model));
}

PretrainedEncoder read_pretrained_encoder(const std::string& folder) {
  const JsonObject config(folder + "/config.json");
  PretrainedEncoder model{
      .folder = folder, .weights = weights_in(folder), .model = encoder_model(config)};
  if (BertOptions* const bert = std::get_if<BertOptions>(&model.model)) {
    const TensorFile file(model.weights);
    bert->pooler = file.contains(name_in(file, "pooler.dense.weight"));
  }
  return model;
}

EncoderModel read_encoder_options(const std::string& path) {
  return encoder_model(JsonObject(path));
}

void check_save_pretrained(const std::string& folder, const PretrainedEncoder& model) {
  check_other_folder(folder, model.folder);
}

void save_pretrained(const TrainState& state, const std::string& folder,
                     const PretrainedEncoder& model) {
  const WeightMap names = hugging_face_names(model.model);
  save_folder(state, folder, model.folder, names);
}

}  // namespace alpa::models
