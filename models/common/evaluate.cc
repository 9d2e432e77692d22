// models/common/evaluate.cc — `alpa evaluate`: how well a decoder predicts a text
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "alpa/models/hugging_face.h"
#include "models/common/decoder_flags.h"
#include "models/common/train.h"
#include "tools/common/processes.h"

namespace programs {

using namespace alpa;
using namespace alpa::models;

namespace {

constexpr std::int32_t kNotCounted = -1;  ///< the label of a token that another window counts

/// What is evaluated, and its batches.
struct Evaluation {
  std::vector<BatchInput> inputs;
  std::function<LossAndMetrics(const Batch&)> model;
  Batches batches;
};

/// Windows of a text that begin every `stride` tokens. Each counts the tokens that none before it
/// has counted, so every token but the first counts once.
BatchData windows_of(const Tokens& text, std::int64_t length, std::int64_t stride) {
  std::vector<std::int32_t> tokens, labels;
  std::int64_t counted = 1;  // tokens of the text that are labels already, or never are
  for (std::int64_t next = 0; counted < text.size(); next += stride) {
    const std::int64_t begin = std::min(next, text.size() - 1 - length);
    for (std::int64_t i = begin; i < begin + length; ++i) {
      tokens.push_back(text[i]);
      labels.push_back(i + 1 < counted ? kNotCounted : text[i + 1]);
    }
    counted = begin + length + 1;
  }
  const Shape shape{std::ssize(tokens) / length, length};
  return {{"tokens", Array(tokens, shape)}, {"labels", Array(labels, shape)}};
}

Evaluation of_text(const Flags& flags, const Decoder& decoder, std::int64_t stride) {
  const Tokens text = Tokens::of_text(flags.data, make_tokenizer(flags));
  require(text.size() > 1, "--data {} has {} tokens; give at least 2", flags.data, text.size());
  const std::int64_t length = std::min(flags.sequence, text.size() - 1);
  BatchData windows = windows_of(text, length, stride > 0 ? stride : length);
  const std::int64_t batch = std::min(flags.batch, windows.at("tokens").shape()[0]);
  const TensorType ids{i32, {batch, length}};
  const auto model = [decoder](const Batch& b) {
    return nn::counted_cross_entropy(decoder(b["tokens"]), b["labels"], kNotCounted);
  };
  return {{{"tokens", ids}, {"labels", ids}}, model, batches(std::move(windows), batch)};
}

Evaluation of_examples(const Flags& flags, const Decoder& decoder) {
  const Batches rows = packed_batches(json_lines_of(flags), flags.batch, flags.sequence);
  const TensorType ids{i32, {std::min(flags.batch, rows.examples()), flags.sequence}};
  return {{{"tokens", ids}, {"labels", ids}, {"segments", ids}, {"positions", ids}},
          [decoder](const Batch& b) { return decoder.packed_loss(b); },
          rows};
}

/// Mean loss per counted token, and their number.
struct Score {
  double loss, tokens;
};

Score score_of(const Flags& flags, const Decoder& decoder, std::int64_t stride) {
  const Adapters adapters = adapters_of(flags, decoder.options());
  const Evaluation evaluation =
      has_json_lines(flags) ? of_examples(flags, decoder) : of_text(flags, decoder, stride);
  const TrainingStep step = evaluation_step(
      evaluation.inputs, evaluation.model,
      {.precision = precision_of(flags), .lora = adapters.lora, .quantized = adapters.quantized});
  const TensorFile file = weights_of(flags);
  check_hugging_face(step.trace(1), file, decoder.options());
  const Executable executable =
      parallelize(step, make_method(flags, flags.method), make_cluster(flags));
  TrainState state = executable.init(0);
  load_hugging_face(state, file, decoder.options());
  if (adapters.loaded) load_peft(state, *adapters.loaded, decoder.options());
  const Metrics means = executable.run(state, evaluation.batches.epoch(0)).metrics;
  const auto places =
      num_elements({evaluation.batches.examples(), evaluation.inputs[0].type.shape[1]});
  return {means["loss"], std::round(means[kLossWeight] * static_cast<double>(places))};
}

/// Flags of a decoder's training that an evaluation has, too.
bool is_of_evaluation(const cli::Flag& row) {
  static const std::set<std::string> names = {
      "--adapter",        "--backend",  "--batch",         "--cluster",      "--data",
      "--devices",        "--dtype",    "--json",          "--join-timeout", "--memory-budget",
      "--mesh",           "--method",   "--micro-batches", "--precision",    "--quantize",
      "--solver-seconds", "--sequence", "--tokenizer"};
  return names.contains(row.name);
}

}  // namespace

int evaluate_command(int argc, char** argv) {
  Flags flags{.batch = 4, .sequence = 1024};
  flags.solver_seconds = 20;
  std::int64_t stride = 0;
  std::vector<cli::Flag> rows = rows_of_decoder(flags);
  std::erase_if(rows, [](const cli::Flag& row) { return !is_of_evaluation(row); });
  rows.insert(rows.begin(),
              cli::text("FOLDER", &flags.load, "a decoder's, as transformers writes it"));
  rows.push_back(cli::in_group(
      "Data", {cli::whole("--stride", &stride,
                          "of a text: tokens between the beginnings of windows of --sequence, each "
                          "of which counts what none before it has; 0: as many as --sequence",
                          0)})[0]);
  if (read_flags(argc, argv, "Says how well a decoder predicts a text: loss and perplexity.", rows,
                 flags))
    return 0;
  require(flags.data != "made", "--data is missing; give a text, or a file of JSON lines");
  cli::require_effect(flags.given, "--stride", has_json_lines(flags), "with JSON lines");
  read_folder(flags);
  require(flags.pretrained.has_value(), "{}: is no folder with a config.json", excerpt(flags.load));
  require(stride <= flags.sequence, "--stride is {}, but --sequence {}; give at most as many",
          stride, flags.sequence);
  const Score score = score_of(flags, Decoder(options_of(flags)), stride);
  const double perplexity = std::exp(score.loss);
  fmt::print("tokens      {:.0f}\nloss        {:.4f} nats per token\nperplexity  {:.4f}\n",
             score.tokens, score.loss, perplexity);
  if (!flags.json.empty())
    write_file(flags.json,
               nlohmann::ordered_json{{"tokens", static_cast<std::int64_t>(score.tokens)},
                                      {"loss", score.loss},
                                      {"perplexity", perplexity}}
                       .dump() +
                   "\n");
  return 0;
}

}  // namespace programs
