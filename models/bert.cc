// models/bert.cc — BERT, which finds hidden tokens
#include "alpa/models/bert.h"

#include <algorithm>

#include "models/common/language.h"
#include "models/common/model.h"

namespace programs {

using namespace alpa;
using namespace alpa::models;

namespace {

BertOptions bert_options(const Flags& flags) {
  const BertSize& size = *std::ranges::find(kBertSizes, flags.model, &BertSize::name);
  return {.encoder = {.layers = size.layers,
                      .hidden = size.hidden,
                      .heads = size.heads,
                      .dropout = flags.dropout,
                      .dtype = own_dtype(flags.dtype),
                      .remat = marks_remat(flags)},
          .sequence = flags.sequence,
          .vocabulary = flags.vocabulary};
}

/// The loss of tokens of which a share is hidden: drawn anew in every step, the same under every
/// plan. Hidden ones become the last token of the vocabulary.
LossAndMetrics hidden_loss(const Bert& bert, const Flags& flags, Value tokens) {
  const Value numbers = random_uniform(tokens, {f32, tokens.shape()});
  const Value hidden = lt(numbers, flags.hidden_share);
  const Value mask =
      constant(tokens, static_cast<double>(flags.vocabulary - 1), i32, tokens.shape());
  const Value none = constant(tokens, static_cast<double>(Bert::kNotHidden), i32, tokens.shape());
  return bert.loss(where(hidden, mask, tokens), where(hidden, tokens, none));
}

}  // namespace

const Model bert{
    .name = "bert",
    .purpose = "Trains BERT with an automatic parallel plan.",
    .sizes = names_of(kBertSizes),
    .rows =
        [](Flags& f) {
          return rows_of_language(
              f, names_of(kBertSizes),
              {.model = {
                   cli::number("--dropout", &f.dropout, "rate of dropout", 0, 0.99),
                   cli::number("--hidden-share", &f.hidden_share, "of the tokens", 0.01, 0.99)}});
        },
    .publish = [](Flags& f) { publish_text(f, 512, 30522); },
    .task =
        [](const Flags& flags) {
          const Bert model(bert_options(flags));
          return language_task(flags, {[flags, model](const Batch& b) {
                                 return hidden_loss(model, flags, b["tokens"]);
                               }});
        },
};

}  // namespace programs
