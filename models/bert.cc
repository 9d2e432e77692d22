// models/bert.cc — alpa-bert: trains BERT to find hidden tokens, on CPU or CUDA devices
#include "models/bert.h"

#include "models/common/language.h"
#include "models/common/run.h"

using namespace alpa;
using namespace models;

namespace {

struct BertFlags : LanguageFlags {
  double dropout = 0, hidden_share = 0.15;
};

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

int run_bert(int argc, char** argv) {
  BertFlags flags;
  std::vector<std::string> sizes;
  for (const BertSize& size : kBertSizes) sizes.emplace_back(size.name);
  const std::vector<cli::Flag> own = cli::in_group(
      "Model", {cli::number("--dropout", &flags.dropout, "rate of dropout", 0, 0.99),
                cli::number("--hidden-share", &flags.hidden_share, "of the tokens", 0.01, 0.99)});
  if (read_flags(argc, argv, "Trains BERT with an automatic parallel plan.",
                 cli::joined({own, rows_of_language(flags, sizes)}), flags))
    return 0;
  run_task(flags, [&] {
    return language_task(flags, [&, bert = Bert(options_of(flags))](const Batch& b) {
      return hidden_loss(bert, flags, b["tokens"]);
    });
  });
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("alpa-bert", run_bert, argc, argv); }
