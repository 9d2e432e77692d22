// models/gpt.cc — alpa-gpt: trains a decoder, GPT or Llama-like, on CPU or CUDA devices
#include "models/gpt.h"

#include "models/common/generation.h"
#include "models/common/language.h"
#include "models/common/run.h"
#include "src/base/program.h"

using namespace alpa;
using namespace models;

namespace {

struct GptFlags : LanguageFlags {
  std::string kind = "gpt";
  std::int64_t layers = 0, hidden = 0, heads = 0, key_heads = 0;
  double dropout = 0, temperature = 0.8;
  std::int64_t generate = 0, top_k = 40;
  std::string prompt = "The ";
};

std::vector<cli::Flag> rows_of_gpt(GptFlags& flags) {
  std::vector<std::string> sizes;
  for (const DecoderSize& size : kGptSizes) sizes.emplace_back(size.name);
  std::vector<cli::Flag> own = cli::in_group(
      "Model",
      {cli::choice("--kind", &flags.kind, "gpt, or llama: RMS norm, rotary positions and SwiGLU",
                   {"gpt", "llama"}),
       cli::whole("--layers", &flags.layers, "blocks; 0: those of the size", 0),
       cli::whole("--hidden", &flags.hidden, "width of the blocks; 0: that of the size", 0),
       cli::whole("--heads", &flags.heads, "heads of a block; 0: those of the size", 0),
       cli::whole("--key-heads", &flags.key_heads, "heads of keys and values; 0: as many as heads",
                  0),
       cli::number("--dropout", &flags.dropout, "rate of dropout", 0, 0.99)});
  std::vector<cli::Flag> output = cli::in_group(
      "Output", {cli::whole("--generate", &flags.generate, "tokens to generate after training", 0),
                 cli::text("--prompt", &flags.prompt, "text that the generated tokens continue"),
                 cli::number("--temperature", &flags.temperature,
                             "of generation; 0: the likeliest token", 0, 100),
                 cli::whole("--top-k", &flags.top_k,
                            "generates among the likeliest tokens; 0: among all", 0)});
  return cli::joined({own, rows_of_language(flags, sizes), output});
}

DecoderOptions options_of(const GptFlags& flags) {
  DecoderOptions options{.kind = flags.kind == "gpt" ? DecoderKind::gpt : DecoderKind::llama,
                         .key_heads = flags.key_heads,
                         .sequence = flags.sequence,
                         .vocabulary = flags.vocabulary,
                         .dropout = flags.dropout,
                         .dtype = parse_dtype(flags.dtype)};
  for (const DecoderSize& size : kGptSizes)
    if (size.name == flags.model)
      options.layers = size.layers, options.hidden = size.hidden, options.heads = size.heads;
  if (flags.layers > 0) options.layers = flags.layers;
  if (flags.hidden > 0) options.hidden = flags.hidden;
  if (flags.heads > 0) options.heads = flags.heads;
  return options;
}

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
  const Decoder decoder(options_of(flags));
  const auto task = [&] {
    return language_task(
        flags, [decoder](const Batch& b) { return decoder.loss(b["tokens"], b["labels"]); });
  };
  const std::optional<Run> run = run_task(flags, task);
  if (run && flags.generate > 0) print_text(flags, decoder, *run);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("alpa-gpt", run_gpt, argc, argv); }
