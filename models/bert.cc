// models/bert.cc — BERT, which finds hidden tokens
#include "alpa/models/bert.h"

#include <algorithm>

#include "models/common/encoder_folder.h"
#include "models/common/language.h"
#include "models/common/model.h"

namespace programs {

using namespace alpa;
using namespace alpa::models;

namespace {

BertOptions bert_options(const Flags& flags) {
  if (const BertOptions* const folder = folder_options<BertOptions>(flags)) {
    BertOptions options = *folder;
    options.encoder.dropout = flags.dropout;
    options.encoder.dtype = own_dtype(flags.dtype);
    options.encoder.remat = marks_remat(flags);
    return options;
  }
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
/// plan. Hidden ones become --mask-token.
LossAndMetrics hidden_loss(const Bert& bert, const Flags& flags, Value tokens) {
  const Value numbers = random_uniform(tokens, {f32, tokens.shape()});
  const Value hidden = lt(numbers, flags.hidden_share);
  const std::int64_t token = flags.mask_token < 0 ? flags.vocabulary - 1 : flags.mask_token;
  const Value mask = constant(tokens, static_cast<double>(token), i32, tokens.shape());
  const Value none = constant(tokens, static_cast<double>(Bert::kNotHidden), i32, tokens.shape());
  return bert.loss(where(hidden, mask, tokens), where(hidden, tokens, none));
}

Task bert_task(const Flags& flags) {
  const Bert model(bert_options(flags));
  require(model.options().head == BertHead::hidden_tokens,
          "--load {}: is no BertForMaskedLM, so it is not trained to find hidden tokens; give "
          "--examples and --logits alone",
          excerpt(flags.load));
  require(flags.mask_token < flags.vocabulary, "--mask-token is {}, but there are {} tokens",
          flags.mask_token, flags.vocabulary);
  return language_task(
      flags, {[flags, model](const Batch& b) { return hidden_loss(model, flags, b["tokens"]); }});
}

/// Hidden tokens of texts become those that the folder's model has learnt.
void follow_mask(Flags& flags) {
  if (flags.mask_token < 0 && flags.data != "made" && !flags.plan_only)
    flags.mask_token = make_tokenizer(flags).find("[MASK]").value_or(-1);
}

void train_bert(Flags& flags) {
  read_encoder(flags, {"--model", "--vocabulary"});
  if (const BertOptions* const folder = folder_options<BertOptions>(flags))
    follow_text(flags, flags.load, folder->vocabulary, folder->sequence), follow_mask(flags);
  train_encoder(flags, [&] { return bert_task(flags); },
                {{"tokens", "key_mask", "token_types"},
                 [model = Bert(bert_options(flags))](const std::vector<Value>& inputs) {
                   return model(inputs[0], inputs[1], inputs[2]);
                 }});
}

}  // namespace

const Model bert{
    .name = "bert",
    .purpose = "Trains BERT with an automatic parallel plan.",
    .sizes = names_of(kBertSizes),
    .rows =
        [](Flags& f) {
          const std::vector<cli::Flag> rows = {
              cli::number("--dropout", &f.dropout, "rate of dropout", 0, 0.99),
              cli::number("--hidden-share", &f.hidden_share, "of the tokens", 0.01, 0.99),
              cli::whole(
                  "--mask-token", &f.mask_token,
                  "number of the token in place of hidden ones; -1: that of [MASK] of a folder "
                  "of --load with a text, else the last one",
                  -1)};
          return cli::joined(
              {rows_of_language(f, names_of(kBertSizes), {.model = rows}),
               folder_rows(f, "tokens [B, T], and maybe key_mask, 0 at padding, and token_types")});
        },
    .publish = [](Flags& f) { publish_text(f, 512, 30522); },
    .task = bert_task,
    .train = train_bert,
};

}  // namespace programs
