#pragma once
/// Flags and tasks of the models of the zoo, for their programs and for `alpa plan`.
#include "models/common/images.h"
#include "models/common/language.h"

namespace programs {

struct BertFlags : LanguageFlags {
  double dropout = 0, hidden_share = 0.15;
};

struct MoeFlags : LanguageFlags {
  std::int64_t layers = 0, hidden = 0, heads = 0, experts = 0, choices = 2, group = 2048;
  double capacity_factor = 1, balance_weight = 0.01;
};

/// Finds hidden tokens: drawn anew in every step, the same under every plan.
Task bert_task(const BertFlags& flags);
/// Predicts every next token by mixtures of experts.
Task moe_task(const MoeFlags& flags);
Task vit_task(const ImageFlags& flags);
Task wide_resnet_task(const ImageFlags& flags);

}  // namespace programs
