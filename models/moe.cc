// models/moe.cc — a decoder with mixtures of experts, which predicts every next token
#include "alpa/models/moe.h"

#include <algorithm>

#include "models/common/language.h"
#include "models/common/model.h"

namespace programs {

using namespace alpa;
using namespace alpa::models;

namespace {

MoeDecoderOptions moe_options(const Flags& flags) {
  const MoeDecoderSize& size = *std::ranges::find(kMoeSizes, flags.model, &MoeDecoderSize::name);
  return {.layers = flags.layers > 0 ? flags.layers : size.layers,
          .hidden = flags.hidden > 0 ? flags.hidden : size.hidden,
          .heads = flags.heads > 0 ? flags.heads : size.heads,
          .experts = flags.experts > 0 ? flags.experts : size.experts,
          .sequence = flags.sequence,
          .vocabulary = flags.vocabulary,
          .choices = static_cast<int>(flags.choices),
          .capacity_factor = flags.capacity_factor,
          .group = flags.group,
          .balance_weight = flags.balance_weight,
          .dtype = own_dtype(flags.dtype),
          .remat = marks_remat(flags)};
}

std::vector<cli::Flag> rows_of_moe(Flags& f) {
  using namespace cli;
  return rows_of_language(
      f, names_of(kMoeSizes),
      {.model = joined(
           {rows_of_blocks(f),
            {whole("--experts", &f.experts, "experts of a layer; 0: as many as --model says", 0),
             whole("--choices", &f.choices, "experts of a token", 1, 2),
             whole("--group", &f.group, "tokens that share the places of an expert", 1),
             number("--capacity-factor", &f.capacity_factor,
                    "places of an expert, as a multiple of its even share", 0.01, 1000),
             number("--balance-weight", &f.balance_weight,
                    "of the loss that balances the experts' loads", 0, 1000)}})});
}

}  // namespace

const Model moe{
    .name = "moe",
    .purpose = "Trains a decoder with mixtures of experts with an automatic parallel plan.",
    .sizes = names_of(kMoeSizes),
    .rows = rows_of_moe,
    .publish = [](Flags& f) { publish_text(f, 1024, 32000); },
    .task =
        [](const Flags& flags) {
          const MoeDecoder model(moe_options(flags));
          return language_task(
              flags, {[model](const Batch& b) { return model.loss(b["tokens"], b["labels"]); }});
        },
};

}  // namespace programs
