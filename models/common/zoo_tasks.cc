// models/common/zoo_tasks.cc — tasks of BERT, mixtures of experts, ViT and Wide-ResNet
#include "models/common/zoo_tasks.h"

#include "alpa/models/bert.h"
#include "alpa/models/moe.h"
#include "alpa/models/vit.h"
#include "alpa/models/wide_resnet.h"

namespace programs {

using namespace alpa;
using namespace alpa::models;

namespace {

BertOptions options_of(const BertFlags& flags) {
  BertOptions options{.encoder = {.dropout = flags.dropout,
                                  .dtype = own_dtype(flags.dtype),
                                  .remat = marks_remat(flags)},
                      .sequence = flags.sequence,
                      .vocabulary = flags.vocabulary};
  for (const BertSize& size : kBertSizes)
    if (size.name == flags.model)
      options.encoder.layers = size.layers, options.encoder.hidden = size.hidden,
      options.encoder.heads = size.heads;
  return options;
}

/// The loss of tokens of which a share is hidden: drawn anew in every step, the same under every
/// plan. Hidden ones become the last token of the vocabulary.
LossAndMetrics hidden_loss(const Bert& bert, const BertFlags& flags, Value tokens) {
  const Value numbers = random_uniform(tokens, {f32, tokens.shape()});
  const Value hidden = lt(numbers, flags.hidden_share);
  const Value mask =
      constant(tokens, static_cast<double>(flags.vocabulary - 1), i32, tokens.shape());
  const Value none = constant(tokens, static_cast<double>(Bert::kNotHidden), i32, tokens.shape());
  return bert.loss(where(hidden, mask, tokens), where(hidden, tokens, none));
}

MoeDecoderOptions options_of(const MoeFlags& flags) {
  MoeDecoderOptions options{.sequence = flags.sequence,
                            .vocabulary = flags.vocabulary,
                            .choices = static_cast<int>(flags.choices),
                            .capacity_factor = flags.capacity_factor,
                            .group = flags.group,
                            .balance_weight = flags.balance_weight,
                            .dtype = own_dtype(flags.dtype),
                            .remat = marks_remat(flags)};
  for (const MoeDecoderSize& size : kMoeSizes)
    if (size.name == flags.model)
      options.layers = size.layers, options.hidden = size.hidden, options.heads = size.heads,
      options.experts = size.experts;
  const auto set = [](std::int64_t& option, std::int64_t flag) {
    option = flag > 0 ? flag : option;
  };
  set(options.layers, flags.layers), set(options.hidden, flags.hidden);
  set(options.heads, flags.heads), set(options.experts, flags.experts);
  return options;
}

VitOptions options_of(const ImageFlags& flags, std::int64_t classes) {
  VitOptions options{
      .encoder = {.norm_first = true, .dtype = own_dtype(flags.dtype), .remat = marks_remat(flags)},
      .classes = classes};
  for (const VitSize& size : kVitSizes)
    if (size.name == flags.model) {
      options.patch = size.patch;
      options.encoder.layers = size.layers, options.encoder.hidden = size.hidden;
      options.encoder.heads = size.heads;
    }
  return options;
}

}  // namespace

Task bert_task(const BertFlags& flags) {
  return language_task(flags, [flags, bert = Bert(options_of(flags))](const Batch& b) {
    return hidden_loss(bert, flags, b["tokens"]);
  });
}

Task moe_task(const MoeFlags& flags) {
  return language_task(flags, [decoder = MoeDecoder(options_of(flags))](const Batch& b) {
    return decoder.loss(b["tokens"], b["labels"]);
  });
}

Task vit_task(const ImageFlags& flags) {
  return image_task(flags, 10, [&](std::int64_t classes) -> nn::Layer {
    return Vit(options_of(flags, classes));
  });
}

Task wide_resnet_task(const ImageFlags& flags) {
  WideResNetSize size = wide_resnet_sizes().at(flags.model);
  size.remat = marks_remat(flags);
  return image_task(flags, size.classes, [&](std::int64_t classes) {
    size.classes = classes;
    return wide_resnet(size);
  });
}

}  // namespace programs
