// models/gpt.cc — alpa-gpt: trains a decoder, GPT or Llama-like, on CPU or CUDA devices
#include "models/common/decoder_flags.h"
#include "models/common/generation.h"
#include "models/common/hugging_face.h"
#include "models/common/run.h"
#include "src/base/program.h"

using namespace alpa;
using namespace models;

namespace {

void print_text(const GptFlags& flags, const Decoder& decoder, const Run& run) {
  const Tokenizer tokenizer = make_tokenizer(flags);
  const std::vector<std::int32_t> tokens =
      generate(decoder, run.state, tokenizer.encode(flags.prompt), flags.generate,
               {flags.temperature, flags.top_k, static_cast<std::uint64_t>(flags.seed)});
  fmt::print("generated   {}{}\n", flags.prompt, tokenizer.decode(tokens));
}

int run_gpt(int argc, char** argv) {
  GptFlags flags;
  if (cli::parse(argc, argv, "Trains a transformer decoder with an automatic parallel plan.",
                 rows_of_gpt(flags)))
    return 0;
  const DecoderOptions options = options_of(flags);
  if (!flags.save.empty()) hugging_face_names(options);  // throws before the training
  const Decoder decoder(options);
  const auto make_task = [&] {
    Task task = language_task(
        flags, [decoder](const Batch& b) { return decoder.loss(b["tokens"], b["labels"]); });
    if (!flags.load.empty())
      task.load = [&](TrainState& state) {
        load_hugging_face(state, TensorFile(flags.load), options);
      };
    return task;
  };
  const std::optional<Run> run = run_task(flags, make_task);
  if (run && !flags.save.empty()) save_hugging_face(run->state, flags.save, options);
  if (run && flags.generate > 0) print_text(flags, decoder, *run);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("alpa-gpt", run_gpt, argc, argv); }
