// models/gpt.cc — alpa-gpt: trains a decoder, GPT or Llama-like, on CPU or CUDA devices
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
  for (const char* flag : {"--prompt", "--temperature", "--top-k"})
    cli::require_effect(flags.given, flag, flags.generate == 0, "without --generate");
  if (flags.generate == 0) return {};
  Prompt prompt{make_tokenizer(flags), {}};
  prompt.tokens = prompt.tokenizer.encode(flags.prompt);
  check_lengths(static_cast<std::int64_t>(prompt.tokens.size()), flags.generate, options.sequence);
  for (const std::int32_t token : prompt.tokens)
    require(token < flags.vocabulary,
            "--prompt has token {}, but --vocabulary is {}; give at least the tokenizer's {}",
            token, flags.vocabulary, prompt.tokenizer.vocabulary());
  return prompt;
}

void print_text(const GptFlags& flags, const Prompt& prompt, const Decoder& decoder,
                const Run& run) {
  const std::vector<std::int32_t> tokens =
      generate(decoder, run.state, prompt.tokens, flags.generate,
               {.temperature = flags.temperature,
                .top_k = flags.top_k,
                .seed = static_cast<std::uint64_t>(flags.seed),
                .tokens = prompt.tokenizer.vocabulary()});
  fmt::print("generated   {}{}\n", flags.prompt, prompt.tokenizer.decode(tokens));
}

/// The task, which starts with the weights of --load. Throws Error if these do not fit.
Task task_of(const GptFlags& flags, const Decoder& decoder) {
  Task task = language_task(
      flags, [decoder](const Batch& b) { return decoder.loss(b["tokens"], b["labels"]); });
  if (flags.load.empty()) return task;
  const TensorFile file(flags.load);
  check_hugging_face(evaluation_step(task.inputs, task.model).trace(1), file, decoder.options());
  task.load = [file, options = decoder.options()](TrainState& state) {
    load_hugging_face(state, file, options);
  };
  return task;
}

int run_gpt(int argc, char** argv) {
  GptFlags flags;
  if (read_flags(argc, argv, "Trains a transformer decoder with an automatic parallel plan.",
                 rows_of_gpt(flags), flags))
    return 0;
  const DecoderOptions options = options_of(flags);
  if (!flags.save.empty()) hugging_face_names(options);  // throws before the training
  const std::optional<Prompt> prompt = prompt_of(flags, options);
  const Decoder decoder(options);
  const std::optional<Run> run = run_task(flags, [&] { return task_of(flags, decoder); });
  if (run && !flags.save.empty()) save_hugging_face(run->state, flags.save, options);
  if (run && prompt) print_text(flags, *prompt, decoder, *run);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("alpa-gpt", run_gpt, argc, argv); }
