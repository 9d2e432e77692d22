// models/common/language.cc — flags and tasks of language models
#include "models/common/language.h"

namespace models {

using namespace alpa;

namespace {

/// Sequences that can be learnt: every token determines the next one.
constexpr std::int64_t kMadeSequences = 512;

std::map<std::string, Array> made_tokens(const LanguageFlags& flags) {
  const std::int64_t rows = std::max(kMadeSequences, flags.batch), columns = flags.sequence;
  std::vector<std::int32_t> tokens(rows * columns), labels(rows * columns);
  const std::vector<std::int64_t> starts =
      shuffled_indices(std::max(rows, flags.vocabulary), static_cast<std::uint64_t>(flags.seed), 0);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t token = starts[row] % flags.vocabulary;
    for (std::int64_t i = row * columns; i < (row + 1) * columns; ++i) {
      tokens[i] = static_cast<std::int32_t>(token);
      token = (5 * token + 3) % flags.vocabulary;
      labels[i] = static_cast<std::int32_t>(token);
    }
  }
  return {{"tokens", Array(tokens, {rows, columns})}, {"labels", Array(labels, {rows, columns})}};
}

}  // namespace

std::vector<cli::Flag> rows_of_language(LanguageFlags& flags, std::span<const std::string> sizes) {
  using namespace cli;
  ModelRows own;
  own.model = {
      choice("--model", &flags.model, "size", {sizes.begin(), sizes.end()}),
      whole("--sequence", &flags.sequence, "tokens of an example", 1),
      whole("--vocabulary", &flags.vocabulary, "different tokens", 2),
      choice("--dtype", &flags.dtype, "element type of parameters and activations",
             {"f32", "bf16", "f16"}),
  };
  own.data = {choice("--data", &flags.data, "made: sequences that can be learnt", {"made"})};
  return rows_of(flags, own);
}

Task language_task(const LanguageFlags& flags, std::function<LossAndMetrics(const Batch&)> model) {
  const TensorType tokens{i32, {flags.batch, flags.sequence}};
  Task task{.model = std::move(model),
            .inputs = {{"tokens", tokens}, {"labels", tokens}},
            .item = "tokens",
            .items_per_step = flags.batch * flags.sequence};
  if (!flags.plan_only)
    task.training = batches(made_tokens(flags), flags.batch, static_cast<std::uint64_t>(flags.seed),
                            {.drop_last = true});
  return task;
}

}  // namespace models
