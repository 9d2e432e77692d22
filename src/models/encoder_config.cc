// src/models/encoder_config.cc — config.json of transformers' BERT, ViT and ResNet to options
#include "src/models/encoder_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "alpa/models/decoder_sizes.h"

namespace alpa::models {
namespace {

/// The class that wrote the folder. Throws Error if it is none of these.
std::string class_of(const JsonObject& config, const std::vector<std::string>& known) {
  const std::vector<std::string> classes = config.texts("architectures");
  for (const std::string& name : known)
    if (classes == std::vector{name}) return name;
  config.refuse("architectures", fmt::format("[\"{}\"]", fmt::join(known, "\"] or [\"")));
}

/// transformers leaves out the names of two labels called LABEL_0 and LABEL_1.
std::int64_t classes_of(const JsonObject& config) {
  if (!config.has("id2label")) return size_or(config, "num_labels", 2);
  const std::int64_t classes = config.members("id2label");
  if (classes == 0) config.refuse("id2label", "a name for each label");
  return classes;
}

EncoderOptions transformer_options(const JsonObject& config) {
  config.expect_one_of("hidden_act", {"gelu", "gelu_new", "gelu_pytorch_tanh"});
  EncoderOptions o{.layers = config.whole("num_hidden_layers", 1, kMostBlocks),
                   .hidden = size(config, "hidden_size"),
                   .heads = size(config, "num_attention_heads"),
                   .feed_forward = size(config, "intermediate_size"),
                   .exact_gelu = !config.has("hidden_act") || config.text("hidden_act") == "gelu",
                   .norm_epsilon = 1e-12};
  check_heads(config, "num_attention_heads", o.heads, o.hidden);
  if (config.has("layer_norm_eps")) o.norm_epsilon = config.positive("layer_norm_eps");
  return o;
}

EncoderModel bert_model(const JsonObject& config) {
  config.expect("is_decoder", false);
  config.expect("add_cross_attention", false);
  config.expect("tie_word_embeddings", true);
  config.expect_one_of("position_embedding_type", {"absolute"});
  const std::string kind =
      class_of(config, {"BertForMaskedLM", "BertModel", "BertForSequenceClassification"});
  BertOptions o{.encoder = transformer_options(config),
                .sequence = size(config, "max_position_embeddings"),
                .vocabulary = size(config, "vocab_size"),
                .token_types = size_or(config, "type_vocab_size", 2)};
  if (kind == "BertModel") o.head = BertHead::states;
  if (kind == "BertForSequenceClassification")
    o.head = BertHead::classes, o.classes = classes_of(config);
  return o;
}

EncoderModel vit_model(const JsonObject& config) {
  class_of(config, {"ViTForImageClassification"});
  VitOptions o{.encoder = transformer_options(config),
               .patch = size_or(config, "patch_size", 16),
               .classes = classes_of(config),
               .image = size_or(config, "image_size", 224)};
  o.encoder.norm_first = true;
  if (config.has("qkv_bias")) o.encoder.query_bias = config.boolean("qkv_bias");
  if (o.image % o.patch != 0)
    config.refuse("patch_size", fmt::format("a divisor of image_size, {}", o.image));
  return o;
}

/// Throws Error unless the features double from group to group.
void check_features(const JsonObject& config, const WideResNetSize& size) {
  const std::vector<std::int64_t> given = config.wholes("hidden_sizes", kMaxElements);
  std::vector<std::int64_t> expected;
  for (std::size_t group = 0; group < size.blocks.size(); ++group)
    expected.push_back(group_features(size, group));
  if (given != expected)
    config.refuse("hidden_sizes", fmt::format("[{}], {} times embedding_size and doubled from "
                                              "stage to stage",
                                              fmt::join(expected, ", "), size.basic ? 1 : 4));
}

EncoderModel resnet_model(const JsonObject& config) {
  constexpr std::size_t kMostGroups = 8;
  class_of(config, {"ResNetForImageClassification"});
  config.expect_one_of("hidden_act", {"relu"});
  config.expect_one_of("layer_type", {"basic", "bottleneck"});
  WideResNetSize o{.channels = size(config, "embedding_size"),
                   .width = 1,
                   .classes = classes_of(config),
                   .basic = config.has("layer_type") && config.text("layer_type") == "basic",
                   .padding = nn::Padding::symmetric};
  const auto flag = [&](const char* key) { return config.has(key) && config.boolean(key); };
  o.strided_first = flag("downsample_in_first_stage");
  o.strided_reduce = flag("downsample_in_bottleneck");
  const std::vector<std::int64_t> depths = config.wholes("depths", kMostBlocks);
  o.blocks.assign(depths.begin(), depths.end());
  if (depths.empty() || depths.size() > kMostGroups || std::ranges::min(depths) < 1 ||
      std::reduce(depths.begin(), depths.end()) > kMostBlocks)
    config.refuse("depths", fmt::format("1 to {} numbers from 1, together at most {}", kMostGroups,
                                        kMostBlocks));
  check_features(config, o);
  return o;
}

}  // namespace

EncoderModel encoder_model(const JsonObject& config) {
  const std::string type = config.text("model_type");
  if (type == "bert") return bert_model(config);
  if (type == "vit") return vit_model(config);
  if (type == "resnet") return resnet_model(config);
  config.refuse("model_type", "\"bert\", \"vit\" or \"resnet\"");
}

}  // namespace alpa::models
