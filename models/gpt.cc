// models/gpt.cc — alpa-gpt: trains a decoder, GPT or Llama-like, on CPU or CUDA devices
#include "models/common/decoder_flags.h"
#include "models/common/generation.h"
#include "models/common/hugging_face.h"
#include "models/common/run.h"

using namespace alpa;
using namespace models;

namespace {

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
  const std::optional<Prompts> prompts = prompts_of(flags, options);
  const Decoder decoder(options);
  std::optional<Run> run = run_task(flags, [&] { return task_of(flags, decoder); });
  if (run && !flags.save.empty()) save_hugging_face(run->state, flags.save, options);
  if (run && prompts)
    print_text(flags, *prompts,
               Generator(decoder, run->executable, generator_options(flags, *prompts)), run->state);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("alpa-gpt", run_gpt, argc, argv); }
