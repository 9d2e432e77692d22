// models/gpt.cc — decoders, GPT and Llama, which may continue texts
#include <algorithm>

#include "alpa/models/gguf.h"
#include "alpa/models/hugging_face.h"
#include "models/common/decoder_flags.h"
#include "models/common/generation.h"
#include "models/common/model.h"
#include "models/common/run.h"

namespace programs {

using namespace alpa;
using namespace alpa::models;

namespace {

/// The decoder's logits of so many tokens.
TrainingStep logits_step(const Decoder& decoder, std::int64_t tokens,
                         const EvaluationOptions& evaluation = {}) {
  return prediction_step({{"tokens", {i32, {1, tokens}}}},
                         [decoder](const Batch& b) { return decoder(b["tokens"]); },
                         {.lora = evaluation.lora, .quantized = evaluation.quantized});
}

/// The file of --logits: "tokens" [1, T] and "logits" [1, T, vocabulary].
void write_logits(const std::string& path, const TokenIds& prompt, const Decoder& decoder,
                  const EvaluationOptions& evaluation, const TrainState& trained) {
  const std::int64_t count = std::ssize(prompt);
  const Executable predictor =
      parallelize(logits_step(decoder, count, evaluation), Serial{}, Cluster::local(1, "cpu"));
  TrainState state = predictor.init(0);
  state.copy_from(trained);
  const Array tokens(prompt, {1, count});
  const Array logits = predictor.run(state, {{"tokens", tokens}}).outputs["prediction"];
  write_safetensors(path, {{"tokens", tokens}, {"logits", logits.cast(f32)}});
}

void write_text(const Flags& flags, const Prompts& prompts, const Decoder& decoder,
                const Generator& generator, TrainState& state) {
  print_text(flags, prompts, generator, state);
  if (!flags.logits.empty())
    write_logits(flags.logits, prompts.tokens[0], decoder, generator.options().evaluation, state);
}

/// The task, which starts with the weights of --load and --adapter. Throws Error if these do not
/// fit.
Task task_of(const Flags& flags, const Decoder& decoder, const Adapters& adapters) {
  Task task = language_task(
      flags, {[decoder](const Batch& b) { return decoder.loss(b["tokens"], b["labels"]); },
              [decoder](const Batch& b) { return decoder.packed_loss(b); }});
  task.lora = adapters.lora;
  task.quantized = adapters.quantized;
  if (flags.load.empty()) return task;
  const TensorFile file = weights_of(flags);
  check_hugging_face(evaluation_step(task.inputs, task.model).trace(1), file, decoder.options());
  task.load = [file, adapters, options = decoder.options()](TrainState& state) {
    load_hugging_face(state, file, options);
    if (adapters.loaded) load_peft(state, *adapters.loaded, options);
  };
  return task;
}

/// Whether a folder's model continues prompts, and nothing is given that is of a training step.
bool only_writes(const Flags& flags) {
  static const std::set<std::string> of_text = {
      "--adapter",   "--dtype",  "--generate", "--join-timeout", "--load",     "--logits",
      "--precision", "--prompt", "--prompts",  "--quantize",     "--seed",     "--steps",
      "--stop",      "--top-k",  "--top-p",    "--temperature",  "--tokenizer"};
  return flags.pretrained && flags.generate > 0 && flags.steps == 0 &&
         std::includes(of_text.begin(), of_text.end(), flags.given.begin(), flags.given.end());
}

/// Continues prompts with the weights of --load, on one CPU device and without an optimizer.
void write_with_weights(const Flags& flags, const Prompts& prompts, const Decoder& decoder,
                        const Adapters& adapters) {
  const TensorFile file = weights_of(flags);
  check_hugging_face(logits_step(decoder, 1).trace(1), file, decoder.options());
  const Generator generator(decoder, Serial{}, Cluster::local(1, "cpu"),
                            generator_options(flags, prompts, adapters));
  TrainState state = generator.init(0);
  load_hugging_face(state, file, decoder.options());
  if (adapters.loaded) load_peft(state, *adapters.loaded, decoder.options());
  write_text(flags, prompts, decoder, generator, state);
}

Task decoder_task(const Flags& flags) {
  const DecoderOptions options = options_of(flags);
  return task_of(flags, Decoder(options), adapters_of(flags, options));
}

bool saves_gguf(const Flags& flags) { return flags.save.ends_with(".gguf"); }

/// What --load's model is with this decoder; without a folder, the decoder alone.
Pretrained saved_model(const Flags& flags, const DecoderOptions& options) {
  Pretrained model = flags.pretrained.value_or(Pretrained{});
  model.decoder = options;
  return model;
}

/// Throws Error where `save` would, before the training.
void check_saving(const Flags& flags, const DecoderOptions& options, const Adapters& adapters) {
  const bool writes_weights = !flags.save.empty() || !flags.save_folder.empty();
  require(
      adapters.quantized.empty() || !writes_weights,
      "--quantize {}: quantised kernels can't hold what is trained; give --save-adapter instead of "
      "--save or --save-folder",
      flags.quantize);
  cli::require_effect(flags.given, "--save-folder", !flags.pretrained,
                      "without a folder of --load, whose other files it takes");
  cli::require_effect(flags.given, "--save-type", !saves_gguf(flags), "without --save FILE.gguf");
  if (saves_gguf(flags)) check_save_gguf(flags.save, saved_model(flags, options));
  if (writes_weights) hugging_face_names(options);
  if (!flags.save_folder.empty()) check_save_pretrained(flags.save_folder, *flags.pretrained);
  if (!flags.save_adapter.empty()) check_peft(options, *adapters.lora);
}

/// The files of --save-adapter and --save, whose weights have the adapters added to them.
void save(const Flags& flags, TrainState& state, const DecoderOptions& options,
          const std::optional<Lora>& lora) {
  if (!flags.save_adapter.empty())
    save_peft(state, flags.save_adapter, options, *lora,
              flags.pretrained ? flags.pretrained->folder : "");
  if (flags.save.empty() && flags.save_folder.empty()) return;
  if (lora) merge_adapters(state, *lora);
  if (saves_gguf(flags))
    save_gguf(state, flags.save, saved_model(flags, options),
              flags.save_type == "f32"   ? GgufType::f32
              : flags.save_type == "f16" ? GgufType::f16
                                         : GgufType::q8_0);
  else if (!flags.save.empty())
    save_hugging_face(state, flags.save, options);
  if (!flags.save_folder.empty()) save_pretrained(state, flags.save_folder, *flags.pretrained);
}

void train_decoder(Flags& flags) {
  read_folder(flags);
  const DecoderOptions options = options_of(flags);
  const std::optional<Prompts> prompts = prompts_of(flags, options);
  const Decoder decoder(options);
  const Adapters adapters = adapters_of(flags, options);
  check_saving(flags, options, adapters);
  if (only_writes(flags)) return write_with_weights(flags, *prompts, decoder, adapters);
  require(adapters.quantized.empty() || adapters.lora,
          "--quantize {}: quantised kernels are not trained; give --lora or --adapter, too",
          flags.quantize);
  const auto after = [&](Run& run) {
    save(flags, run.state, options, adapters.lora);
    if (prompts)
      write_text(flags, *prompts, decoder,
                 Generator(decoder, run.executable, generator_options(flags, *prompts, adapters)),
                 run.state);
  };
  run_task(
      flags, [&] { return task_of(flags, decoder, adapters); }, after);
}

}  // namespace

const Model gpt{
    .name = "gpt",
    .purpose = "Trains a transformer decoder with an automatic parallel plan.",
    .sizes = names_of(kGptSizes),
    .rows = rows_of_decoder,
    .publish = [](Flags& f) { publish_text(f, 1024, 51200); },
    .task = decoder_task,
    .train = train_decoder,
};

const Model llama{
    .name = "llama",
    .purpose = "Trains Llama with an automatic parallel plan.",
    .sizes = names_of(kLlamaSizes),
    .initial = {.kind = "llama"},
    .rows =
        [](Flags& f) {
          std::vector<cli::Flag> rows = rows_of_decoder(f);
          std::erase_if(rows, [](const cli::Flag& row) { return row.name == "--kind"; });
          return rows;
        },
    .publish =
        [](Flags& f) {
          const DecoderSize& size = *std::ranges::find(kLlamaSizes, f.model, &DecoderSize::name);
          publish_text(f, 2048, size.vocabulary > 0 ? size.vocabulary : 32000);
        },
    .task = decoder_task,
    .train = train_decoder,
};

}  // namespace programs
