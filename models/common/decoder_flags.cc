// models/common/decoder_flags.cc — flags of GPT and Llama
#include "models/common/decoder_flags.h"

#include <algorithm>
#include <filesystem>
#include <span>

#include "alpa/models/hugging_face.h"
#include "models/common/model.h"

namespace programs {

using namespace alpa;
using namespace alpa::models;

namespace {

std::vector<cli::Flag> decoder_rows(Flags& flags) {
  using namespace cli;
  return joined(
      {{choice("--kind", &flags.kind, "gpt, or llama: RMS norm, rotary positions and SwiGLU",
               {"gpt", "llama"})},
       rows_of_blocks(flags),
       {whole("--key-heads", &flags.key_heads, "heads of keys and values; 0: as many as heads", 0),
        whole("--feed-forward", &flags.feed_forward,
              "width between its products; 0: that of the size, or 4 times hidden", 0),
        whole("--positions", &flags.positions,
              "kind gpt: positions that are learnt; 0: as many as --sequence", 0),
        choice(
            "--head", &flags.head,
            "the embedding's table, with a bias or without, or a kernel of its own; auto: that of "
            "--load, else tied_bias for kind gpt, own for the sizes of Llama, else tied",
            {"auto", "tied", "tied_bias", "own"}),
        number("--norm-epsilon", &flags.norm_epsilon,
               "of the normalisation; 0: 1e-5 of kind gpt, 1e-6 of llama", 0, 1),
        number("--rotary-base", &flags.rotary_base,
               "kind llama: base of the positions; 0: that of the size, or 10000", 0, 1e12),
        number("--dropout", &flags.dropout, "rate of dropout", 0, 0.99)}});
}

std::vector<cli::Flag> adapter_rows(Flags& flags) {
  using namespace cli;
  return {
      whole("--lora", &flags.lora,
            "rank of adapters of Dense layers (LoRA), which alone are trained and have --dropout, "
            "too; 0: none",
            0),
      number("--lora-alpha", &flags.lora_alpha,
             "adapters are scaled by this number over the rank; 0: twice the rank", 0, 1e6),
      text("--lora-targets", &flags.lora_targets,
           "patterns of the layers with adapters, between commas"),
      text("--adapter", &flags.adapter,
           "start with the adapters of this folder of Hugging Face's PEFT, which alone are "
           "trained"),
      choice("--quantize", &flags.quantize,
             "keep kernels of Dense layers quantised (QLoRA), in blocks of this type, or as the "
             "GGUF file of --load has them stored",
             {"none", "q8_0", "q4_0", "q4_1", "stored"})};
}

bool is_list_of_lengths(const std::string& text) {
  const std::vector<std::string> parts = cli::parts_of_list(text);
  return !parts.empty() && std::ranges::all_of(parts, [](const std::string& part) {
    return cli::parse_whole(part).value_or(0) >= 1;
  });
}

std::vector<cli::Flag> text_rows(Flags& flags) {
  using namespace cli;
  return {
      output_folder("--save-adapter", &flags.save_adapter,
                    "write the adapters to this folder, as Hugging Face's PEFT has them"),
      output_folder("--save-folder", &flags.save_folder,
                    "write the weights to this folder, with the other files of that of --load, as "
                    "transformers has them"),
      output_file("--save", &flags.save,
                  "write the weights, with adapters added to them, to this safetensors file, as "
                  "Hugging Face names them, or to FILE.gguf for llama.cpp, with the tokenizer"),
      choice("--save-type", &flags.save_type, "element type of FILE.gguf", {"f32", "f16", "q8_0"}),
      whole("--generate", &flags.generate,
            "tokens to generate after training; with --prompt and a folder of --load 64", 0),
      text("--prompt", &flags.prompt, "text that the generated tokens continue"),
      number("--temperature", &flags.temperature, "of generation; 0: the likeliest token", 0, 100),
      whole("--top-k", &flags.top_k, "generates among the likeliest tokens; 0: among all", 0),
      number("--top-p", &flags.top_p,
             "generates among the likeliest tokens of this probability together", 1e-6, 1),
      text("--prompts", &flags.prompts, "continues every line of this file, instead of --prompt"),
      text("--stop", &flags.stop, "text of the token before which generated text ends"),
      output_file("--logits", &flags.logits,
                  "write the prompt's tokens and the logits after each to this safetensors file"),
  };
}

const DecoderSize* find(std::span<const DecoderSize> sizes, std::string_view name) {
  const auto found = std::find_if(sizes.begin(), sizes.end(),
                                  [&](const DecoderSize& size) { return size.name == name; });
  return found == sizes.end() ? nullptr : &*found;
}

/// "tied", "tied_bias" or "own".
std::string head_of(const Flags& flags) {
  if (flags.head != "auto") return flags.head;
  if (flags.kind == "gpt") return flags.load.empty() ? "tied_bias" : "tied";
  const bool own = flags.load.empty() ? find(kLlamaSizes, flags.model) != nullptr
                                      : TensorFile(flags.load).contains("lm_head.weight");
  return own ? "own" : "tied";
}

/// Tokens that continue a prompt of a folder's model.
constexpr std::int64_t kContinued = 64;

/// Gives the flags of data and text the values that go with the model.
void follow_folder(const Pretrained& model, Flags& flags) {
  const auto given = [&](const char* flag) { return flags.given.count(flag) > 0; };
  follow_text(flags, model.folder, model.decoder.vocabulary, model.decoder.sequence);
  if (!given("--steps") && !given("--data")) flags.steps = 0;
  if (given("--prompt") && !given("--generate") && !flags.plan_only) flags.generate = kContinued;
}

/// The layers that --quantize asks for.
std::vector<Quantized> quantized_of(const Flags& flags, const DecoderOptions& options) {
  cli::require_effect(flags.given, "--quantize", flags.load.empty(), "without --load");
  if (flags.quantize == "none") return {};
  if (flags.quantize == "stored") return stored_quantization(weights_of(flags), options);
  return {{"*", flags.quantize == "q8_0"   ? Quantization::q8_0
                : flags.quantize == "q4_0" ? Quantization::q4_0
                                           : Quantization::q4_1}};
}

/// The decoder of the folder, with what is of this run.
DecoderOptions pretrained_options(const Flags& flags) {
  DecoderOptions options = flags.pretrained->decoder;
  options.dropout = flags.dropout;
  options.dtype = own_dtype(flags.dtype);
  options.remat = marks_remat(flags);
  return options;
}

}  // namespace

std::vector<cli::Flag> rows_of_decoder(Flags& flags) {
  std::vector<std::string> sizes = names_of(kGptSizes);
  for (const DecoderSize& size : kLlamaSizes) sizes.emplace_back(size.name);
  const cli::Flag load = cli::text(
      "--load", &flags.load,
      "start with a model of Hugging Face's: the weights of a safetensors file of GPT-2 or Llama, "
      "or a folder with config.json and tokenizer, or a GGUF file, which are trained only with "
      "--data or --steps");
  const cli::Flag buckets = cli::text(
      "--buckets", &flags.buckets,
      "of a .jsonl file: further lengths of rows below --sequence, for short examples, whose steps "
      "follow the plan",
      "whole numbers from 1, between commas", is_list_of_lengths);
  return cli::joined(
      {rows_of_language(flags, sizes,
                        {.model = cli::joined({decoder_rows(flags), adapter_rows(flags)}),
                         .data = {load, buckets}}),
       cli::in_group("Output", text_rows(flags))});
}

void read_folder(Flags& flags) {
  std::error_code unreadable;  // is told by who opens it
  if (!std::filesystem::is_directory(flags.load, unreadable) && !is_gguf_name(flags.load)) return;
  refuse_decided(flags, {"--model", "--kind", "--layers", "--hidden", "--heads", "--key-heads",
                         "--feed-forward", "--positions", "--head", "--norm-epsilon",
                         "--rotary-base", "--vocabulary"});
  flags.pretrained = read_pretrained(flags.load);
  follow_folder(*flags.pretrained, flags);
}

TensorFile weights_of(const Flags& flags) {
  return TensorFile(flags.pretrained ? flags.pretrained->weights : flags.load);
}

Adapters adapters_of(const Flags& flags, const DecoderOptions& options) {
  Adapters adapters{.quantized = quantized_of(flags, options)};
  for (const char* flag : {"--lora-alpha", "--lora-targets"})
    cli::require_effect(flags.given, flag, flags.lora == 0, "without --lora");
  cli::require_effect(flags.given, "--save-adapter", flags.lora == 0 && flags.adapter.empty(),
                      "without --lora or --adapter");
  cli::require_effect(flags.given, "--lora", !flags.adapter.empty(),
                      "beside --adapter, whose folder decides it");
  if (!flags.adapter.empty()) {
    adapters.loaded = read_peft(flags.adapter, options);
    adapters.lora = adapters.loaded->lora;
  } else if (flags.lora > 0) {
    adapters.lora =
        Lora{.targets = cli::parts_of_list(flags.lora_targets),
             .rank = flags.lora,
             .alpha = flags.lora_alpha > 0 ? flags.lora_alpha : 2 * static_cast<double>(flags.lora),
             .dropout = flags.dropout};
  }
  return adapters;
}

DecoderOptions options_of(const Flags& flags) {
  if (flags.pretrained) return pretrained_options(flags);
  const DecoderSize* of_llama = find(kLlamaSizes, flags.model);
  require(!of_llama || flags.kind == "llama", "--model {} is a size of --kind llama, not of gpt",
          flags.model);
  const DecoderSize& size = of_llama ? *of_llama : *find(kGptSizes, flags.model);
  cli::require_effect(flags.given, "--positions", flags.kind != "gpt",
                      "with --kind llama, whose positions are not learnt");
  cli::require_effect(flags.given, "--rotary-base", flags.kind == "gpt",
                      "with --kind gpt, whose positions are learnt");
  const std::string head = head_of(flags);
  require(flags.kind == "gpt" || head != "tied_bias",
          "--head is 'tied_bias', but --kind llama has no bias; take tied or own");
  DecoderOptions options{
      .kind = flags.kind == "gpt" ? DecoderKind::gpt : DecoderKind::llama,
      .layers = flags.layers > 0 ? flags.layers : size.layers,
      .hidden = flags.hidden > 0 ? flags.hidden : size.hidden,
      .heads = flags.heads > 0 ? flags.heads : size.heads,
      .key_heads = flags.key_heads > 0 || flags.heads > 0 ? flags.key_heads : size.key_heads,
      .sequence = flags.positions > 0 ? flags.positions : flags.sequence,
      .vocabulary = flags.vocabulary,
      .feed_forward = flags.feed_forward > 0 ? flags.feed_forward : size.feed_forward,
      .dropout = flags.dropout,
      .head_bias = head == "tied_bias",
      .tied_head = head != "own",
      .norm_epsilon = flags.norm_epsilon,
      .rotary_base = flags.rotary_base > 0 ? flags.rotary_base : size.rotary_base,
      .dtype = own_dtype(flags.dtype),
      .remat = marks_remat(flags)};
  require(options.sequence >= flags.sequence,
          "--positions is {}, fewer than the {} of --sequence; give at least as many",
          options.sequence, flags.sequence);
  return options;
}

}  // namespace programs
