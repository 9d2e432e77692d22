// models/gpt.cc — alpa-gpt: trains a decoder, GPT or Llama-like, on CPU or CUDA devices
#include <algorithm>

#include "models/common/decoder_flags.h"
#include "models/common/generation.h"
#include "models/common/hugging_face.h"
#include "models/common/run.h"

using namespace alpa;
using namespace models;

namespace {

/// A text to continue, and how.
struct Prompt {
  Tokenizer tokenizer;
  std::vector<std::int32_t> tokens;
};

/// The prompt of --generate, before the training: throws Error if it can't be continued.
std::optional<Prompt> prompt_of(const GptFlags& flags, const DecoderOptions& options) {
  for (const char* flag : {"--prompt", "--temperature", "--top-k", "--logits"})
    cli::require_effect(flags.given, flag, flags.generate == 0, "without --generate");
  if (flags.generate == 0) return {};
  Prompt prompt{make_tokenizer(flags), {}};
  prompt.tokens = prompt.tokenizer.encode_whole(flags.prompt);
  check_lengths(static_cast<std::int64_t>(prompt.tokens.size()), flags.generate, options.sequence);
  for (const std::int32_t token : prompt.tokens)
    require(token < flags.vocabulary,
            "--prompt has token {}, but {} is {}; give at least the tokenizer's {}", token,
            flags.vocabulary_name, flags.vocabulary, prompt.tokenizer.vocabulary());
  return prompt;
}

/// The decoder's logits of so many tokens.
TrainingStep logits_step(const Decoder& decoder, std::int64_t tokens) {
  return prediction_step({{"tokens", {i32, {1, tokens}}}},
                         [decoder](const Batch& b) { return decoder(b["tokens"]); });
}

Executable on_one_device(const TrainingStep& step) {
  return parallelize(step, Serial{}, Cluster::local(1, "cpu"));
}

/// The file of --logits: "tokens" [1, T] and "logits" [1, T, vocabulary].
void write_logits(const std::string& path, const Prompt& prompt, const Decoder& decoder,
                  const TrainState& trained) {
  const auto count = static_cast<std::int64_t>(prompt.tokens.size());
  const Executable predictor = on_one_device(logits_step(decoder, count));
  TrainState state = predictor.init(0);
  state.copy_from(trained);
  const Array tokens(prompt.tokens, {1, count});
  const Array logits = predictor.run(state, {{"tokens", tokens}}).outputs["prediction"];
  write_safetensors(path, {{"tokens", tokens}, {"logits", logits.cast(f32)}});
}

/// The decoder that continues the prompt. Where positions are not learnt, its sequence, which its
/// cache is as long as, ends with the text.
Decoder decoder_of_text(const GptFlags& flags, const Prompt& prompt, DecoderOptions options) {
  if (options.kind == DecoderKind::llama)
    options.sequence = static_cast<std::int64_t>(prompt.tokens.size()) + flags.generate;
  return Decoder(options);
}

/// Removes what follows the end of a text.
void end_text(std::vector<std::int32_t>& tokens, const std::vector<std::int32_t>& stops) {
  tokens.erase(std::find_first_of(tokens.begin(), tokens.end(), stops.begin(), stops.end()),
               tokens.end());
}

void print_text(const GptFlags& flags, const Prompt& prompt, const DecoderOptions& options,
                const TrainState& trained) {
  const Decoder decoder = decoder_of_text(flags, prompt, options);
  std::vector<std::int32_t> tokens = generate(decoder, trained, prompt.tokens, flags.generate,
                                              {.temperature = flags.temperature,
                                               .top_k = flags.top_k,
                                               .seed = static_cast<std::uint64_t>(flags.seed),
                                               .tokens = prompt.tokenizer.vocabulary()});
  if (flags.pretrained) end_text(tokens, flags.pretrained->stop_tokens);
  fmt::print("generated   {}{}\n", flags.prompt, valid_utf8(prompt.tokenizer.decode(tokens)));
  if (!flags.logits.empty()) write_logits(flags.logits, prompt, decoder, trained);
}

TensorFile weights_of(const GptFlags& flags) {
  return TensorFile(flags.pretrained ? flags.pretrained->weights : flags.load);
}

/// The task, which starts with the weights of --load. Throws Error if these do not fit.
Task task_of(const GptFlags& flags, const Decoder& decoder) {
  Task task = language_task(
      flags, [decoder](const Batch& b) { return decoder.loss(b["tokens"], b["labels"]); });
  if (flags.load.empty()) return task;
  const TensorFile file = weights_of(flags);
  check_hugging_face(evaluation_step(task.inputs, task.model).trace(1), file, decoder.options());
  task.load = [file, options = decoder.options()](TrainState& state) {
    load_hugging_face(state, file, options);
  };
  return task;
}

/// Whether a folder's model continues a prompt, and nothing is given that is of a training step.
bool only_writes(const GptFlags& flags) {
  static const std::set<std::string> of_text = {
      "--dtype", "--generate", "--load",        "--logits",    "--prompt",
      "--seed",  "--steps",    "--temperature", "--tokenizer", "--top-k"};
  return flags.pretrained && flags.generate > 0 && flags.steps == 0 &&
         std::includes(of_text.begin(), of_text.end(), flags.given.begin(), flags.given.end());
}

/// A state of the weights of --load, without that of an optimizer.
TrainState loaded_state(const GptFlags& flags, const DecoderOptions& options) {
  const TensorFile file = weights_of(flags);
  const TrainingStep step = logits_step(Decoder(options), 1);
  check_hugging_face(step.trace(1), file, options);
  TrainState state = on_one_device(step).init(0);
  load_hugging_face(state, file, options);
  return state;
}

int run_gpt(int argc, char** argv) {
  GptFlags flags;
  if (read_flags(argc, argv, "Trains a transformer decoder with an automatic parallel plan.",
                 rows_of_gpt(flags), flags))
    return 0;
  read_folder(flags);
  const DecoderOptions options = options_of(flags);
  if (!flags.save.empty()) hugging_face_names(options);  // throws before the training
  const std::optional<Prompt> prompt = prompt_of(flags, options);
  if (only_writes(flags)) {
    print_text(flags, *prompt, options, loaded_state(flags, options));
    return 0;
  }
  const Decoder decoder(options);
  const std::optional<Run> run = run_task(flags, [&] { return task_of(flags, decoder); });
  if (run && !flags.save.empty()) save_hugging_face(run->state, flags.save, options);
  if (run && prompt) print_text(flags, *prompt, options, run->state);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("alpa-gpt", run_gpt, argc, argv); }
