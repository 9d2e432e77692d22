// models/common/language.cc — flags and tasks of language models
#include "models/common/language.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "models/common/data.h"

namespace programs {

using namespace alpa;

namespace {

/// Sequences that can be learnt: every token determines the next one.
constexpr std::int64_t kMadeSequences = 512;

/// Tokens that they begin with, at most: of a larger vocabulary the first ones.
constexpr std::int64_t kMostStarts = 1 << 20;

/// Bytes of the tokens and labels, each twice for a moment.
double made_bytes(double rows, double columns) { return 16 * rows * columns; }

BatchData made_tokens(const Flags& flags) {
  const std::int64_t rows = std::max(kMadeSequences, flags.batch), columns = flags.sequence;
  require_memory(made_bytes(static_cast<double>(rows), static_cast<double>(columns)),
                 fmt::format("--batch is {} and --sequence is {}", flags.batch, flags.sequence));
  std::vector<std::int32_t> tokens(rows * columns), labels(rows * columns);
  const std::vector<std::int64_t> starts =
      shuffled_indices(std::max(rows, std::min(flags.vocabulary, kMostStarts)),
                       static_cast<std::uint64_t>(flags.seed), 0);
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

/// The test set, the end of the text, has no more batches than this.
constexpr std::int64_t kMostTestBatches = 64;

/// Tokens of the test set, of so many. Throws Error unless there is a batch of it and of the rest.
std::int64_t test_tokens(const Flags& flags, std::int64_t tokens, std::int64_t per_batch) {
  const auto share = static_cast<std::int64_t>(flags.test_share * static_cast<double>(tokens));
  const std::int64_t test = std::min(share, kMostTestBatches * per_batch + 1);
  require(tokens - test > per_batch, "--data {} has {} tokens{}; a batch of {} needs one more",
          flags.data, tokens,
          test > 0 ? fmt::format(", {} of them for the test (--test-share)", test) : "", per_batch);
  require(flags.test_share == 0 || test > per_batch,
          "--data {} has {} tokens, of which --test-share {} keeps {} for the test; a batch of {} "
          "needs one more: give a longer text, smaller batches, or --test-share 0",
          flags.data, tokens, flags.test_share, test, per_batch);
  return test;
}

Tokenizer fitting_tokenizer(const Flags& flags) {
  Tokenizer tokenizer = make_tokenizer(flags);
  require(tokenizer.vocabulary() <= flags.vocabulary,
          "{} is {}, but the tokenizer has {} tokens; give at least as many", flags.vocabulary_name,
          flags.vocabulary, tokenizer.vocabulary());
  return tokenizer;
}

void read_text(const Flags& flags, std::uint64_t seed, Task& task) {
  const Tokenizer tokenizer = fitting_tokenizer(flags);
  const Tokens text = Tokens::of_text(flags.data, tokenizer);
  const std::int64_t per_batch = num_elements({flags.batch, flags.sequence});
  const std::int64_t test = test_tokens(flags, text.size(), per_batch);
  task.training = token_batches(text.part(0, text.size() - test), flags.batch, flags.sequence, seed,
                                {.drop_last = true});
  if (test > 0)
    task.test = token_batches(text.part(text.size() - test, text.size()), flags.batch,
                              flags.sequence, {}, {.drop_last = true});
}

/// The token that ends texts of the folder of --load, or of GPT-2's tokenizer.
std::optional<std::int32_t> end_of_text(const Flags& flags, const Tokenizer& tokenizer) {
  if (flags.pretrained && !flags.pretrained->stop_tokens.empty())
    return flags.pretrained->stop_tokens.front();
  return tokenizer.find("<|endoftext|>");
}

/// How many examples became how many rows of which batches are made, and how much of these is none.
void print_rows(const Flags& flags, const std::vector<TextExample>& examples, std::int64_t rows) {
  double tokens = 0;
  for (const TextExample& example : examples)
    tokens += static_cast<double>(std::max<std::int64_t>(0, std::ssize(example.tokens) - 1));
  fmt::print("data        {} examples, {:.0f} tokens in {} rows of {}, {:.1f} % full\n",
             examples.size(), tokens, rows, flags.sequence,
             100 * tokens / static_cast<double>(num_elements({rows, flags.sequence})));
}

/// The lengths of --buckets. Throws Error for one that is not below --sequence.
std::set<std::int64_t> buckets_of(const Flags& flags) {
  cli::require_effect(flags.given, "--buckets", !has_json_lines(flags),
                      "without a .jsonl file of --data, whose examples have different lengths");
  std::set<std::int64_t> lengths;
  for (const std::string& part : cli::parts_of_list(flags.buckets))
    lengths.insert(cli::parse_whole(part).value());
  require(lengths.empty() || *lengths.rbegin() < flags.sequence,
          "--buckets has {}, but --sequence is {}; give lengths below it: it is the longest itself",
          lengths.empty() ? 0 : *lengths.rbegin(), flags.sequence);
  return lengths;
}

/// As `print_rows`, with the number of batches of each length.
void print_buckets(const std::vector<TextExample>& examples, const Batches& batches) {
  std::map<std::int64_t, int, std::greater<>> of_length;
  std::int64_t places = 0, tokens = 0;
  for (const BatchData& batch : batches.epoch(0)) {
    const Array& segments = batch.at("segments");
    ++of_length[segments.shape()[1]];
    places += segments.elements();
    tokens += std::ranges::count_if(segments.elements_as<std::int32_t>(),
                                    [](std::int32_t segment) { return segment > 0; });
  }
  std::string counts;
  for (const auto& [length, count] : of_length)
    counts += fmt::format("{}{} of {}", counts.empty() ? "" : ", ", count, length);
  fmt::print(
      "data        {} examples, {} tokens in batches with rows of one length: {}, {:.1f} % "
      "full\n",
      examples.size(), tokens, counts,
      100 * static_cast<double>(tokens) / static_cast<double>(places));
}

/// The last examples, --test-share of them, are the test set.
void read_examples(const Flags& flags, std::uint64_t seed, Task& task) {
  std::vector<TextExample> training = json_lines_of(flags);
  const auto share = flags.test_share * static_cast<double>(training.size());
  const std::vector<TextExample> test(training.end() - static_cast<std::ptrdiff_t>(share),
                                      training.end());
  training.resize(training.size() - test.size());
  std::set<std::int64_t> lengths = buckets_of(flags);
  if (lengths.empty()) {
    task.training =
        packed_batches(training, flags.batch, flags.sequence, seed, {.drop_last = true});
    print_rows(flags, training, task.training->examples());
  } else {
    lengths.insert(flags.sequence);
    task.training = bucketed_batches(training, flags.batch, {lengths.begin(), lengths.end()}, seed);
    print_buckets(training, *task.training);
  }
  if (!test.empty()) task.test = packed_batches(test, flags.batch, flags.sequence);
}

}  // namespace

std::vector<cli::Flag> rows_of_language(Flags& flags, const std::vector<std::string>& sizes,
                                        const ModelRows& own) {
  using namespace cli;
  const std::vector<Flag> model = {
      choice("--model", &flags.model, "size", sizes),
      whole("--sequence", &flags.sequence, "tokens of an example", 1),
      whole("--vocabulary", &flags.vocabulary, "different tokens", 2),
      choice("--dtype", &flags.dtype, "element type of parameters and activations",
             {"f32", "f64", "bf16", "f16"}),
  };
  const std::vector<Flag> data = {
      text("--data", &flags.data,
           "a text file; a .jsonl file of texts, of prompts and completions, or of messages; or "
           "made: sequences that can be learnt"),
      number("--test-share", &flags.test_share,
             "of a file: the share at its end that is kept for the test; 0: none", 0, 0.9),
      text("--tokenizer", &flags.tokenizer,
           "bytes, or a directory with tokenizer.json, or with GPT-2's vocab.json and merges.txt"),
  };
  return rows_of(flags, {joined({own.model, model}), joined({own.data, data}), {}});
}

void publish_text(Flags& flags, std::int64_t sequence, std::int64_t vocabulary) {
  follow(flags, "--sequence", flags.sequence, sequence);
  follow(flags, "--vocabulary", flags.vocabulary, vocabulary);
}

void follow_text(Flags& flags, const std::string& folder, std::int64_t vocabulary,
                 std::int64_t positions) {
  flags.vocabulary = vocabulary;
  flags.vocabulary_name = "vocab_size of " + config_of(folder);
  follow(flags, "--tokenizer", flags.tokenizer, folder);
  follow(flags, "--sequence", flags.sequence, std::min(flags.sequence, positions));
  require(flags.sequence <= positions,
          "--sequence is {}, but {} has {} positions; give at most as many", flags.sequence,
          config_of(folder), positions);
}

Tokenizer make_tokenizer(const Flags& flags) {
  if (flags.tokenizer == "bytes") return Tokenizer::of_bytes();
  return Tokenizer::of_folder(flags.tokenizer);
}

bool has_json_lines(const Flags& flags) {
  return flags.data.ends_with(".jsonl") || flags.data.ends_with(".jsonl.gz");
}

std::vector<TextExample> json_lines_of(const Flags& flags) {
  const Tokenizer tokenizer = fitting_tokenizer(flags);
  JsonLinesOptions options{.end = end_of_text(flags, tokenizer)};
  if (flags.tokenizer != "bytes") options.chat = ChatTemplate::find(flags.tokenizer);
  return read_json_lines(flags.data, tokenizer, options);
}

Task language_task(const Flags& flags, const LanguageModel& model) {
  const bool prompt = flags.given.count("--generate") + flags.given.count("--prompt") > 0;
  cli::require_effect(flags.given, "--tokenizer", flags.data == "made" && !prompt,
                      "with --data made, which has tokens but no text");
  cli::require_effect(flags.given, "--test-share", flags.data == "made",
                      "with --data made, which has no test");
  const bool packed = has_json_lines(flags);
  require(!packed || model.packed_loss,
          "--data {}: this model learns no examples of JSON lines; give a text file, or train a "
          "decoder, gpt or llama",
          flags.data);
  const auto inputs = [&](std::int64_t length) {
    const TensorType tokens{i32, {flags.batch, length}};
    std::vector<BatchInput> of_step{{"tokens", tokens}, {"labels", tokens}};
    if (packed)
      for (const char* input : {"segments", "positions"}) of_step.push_back({input, tokens});
    return of_step;
  };
  Task task{.model = packed ? model.packed_loss : model.loss,
            .inputs = inputs(flags.sequence),
            .item = "tokens",
            .items_per_step = flags.batch * flags.sequence};
  for (const std::int64_t length : buckets_of(flags)) task.shorter.push_back(inputs(length));
  if (flags.plan_only) return task;
  const auto seed = static_cast<std::uint64_t>(flags.seed);
  if (flags.data == "made")
    task.training = batches(made_tokens(flags), flags.batch, seed, {.drop_last = true});
  else if (packed)
    read_examples(flags, seed, task);
  else
    read_text(flags, seed, task);
  return task;
}

}  // namespace programs
