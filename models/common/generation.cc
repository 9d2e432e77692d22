// models/common/generation.cc — texts that a decoder continues after the training
#include "models/common/generation.h"

#include <algorithm>
#include <cstdio>

namespace programs {

using namespace alpa;
using namespace alpa::models;

namespace {

constexpr std::int64_t kMostAtOnce = 16;  ///< prompts

/// The lines of a file that are not empty.
std::vector<std::string> lines_of(const std::string& path) {
  const Tokens bytes = Tokens::of_text(path, Tokenizer::of_bytes());
  std::vector<std::string> lines(1);
  for (std::int64_t i = 0; i < bytes.size(); ++i)
    bytes[i] == '\n' ? lines.emplace_back() : lines.back() += static_cast<char>(bytes[i]);
  std::erase(lines, "");
  return lines;
}

std::vector<std::string> texts_of(const Flags& flags) {
  cli::require_effect(flags.given, "--prompt", !flags.prompts.empty(),
                      "beside --prompts, whose lines are continued");
  if (flags.prompts.empty()) return {flags.prompt};
  const std::vector<std::string> lines = lines_of(flags.prompts);
  require(!lines.empty(), "--prompts {}: has no lines; write a prompt on each",
          excerpt(flags.prompts));
  return lines;
}

/// Those of --stop, or those that end a text of the folder of --load.
TokenIds stop_of(const Flags& flags, const Tokenizer& tokenizer) {
  if (flags.stop.empty()) return flags.pretrained ? flags.pretrained->stop_tokens : TokenIds{};
  if (const auto special = tokenizer.find(flags.stop)) return {*special};
  const TokenIds tokens = tokenizer.encode(flags.stop);
  require(tokens.size() == 1, "--stop has {} tokens; give the text of a single one", tokens.size());
  return tokens;
}

void check_prompt(const Flags& flags, const TokenIds& prompt, const Tokenizer& tokenizer) {
  for (const std::int32_t token : prompt)
    require(token < flags.vocabulary,
            "--prompt has token {}, but {} is {}; give at least the tokenizer's {}", token,
            flags.vocabulary_name, flags.vocabulary, tokenizer.vocabulary());
}

std::int64_t longest(const Prompts& prompts) {
  std::size_t most = 0;
  for (const TokenIds& tokens : prompts.tokens) most = std::max(most, tokens.size());
  return static_cast<std::int64_t>(most);
}

/// Text that comes in pieces, which may end within a character.
class TextStream {
 public:
  void print(const std::string& piece) {
    rest_ += piece;
    const std::size_t whole = rest_.size() - unfinished();
    fmt::print("{}", valid_utf8(rest_.substr(0, whole)));
    rest_.erase(0, whole);
    std::fflush(stdout);
  }
  void end() { fmt::print("{}\n", valid_utf8(rest_)); }

 private:
  /// Bytes of the last character, if more of them are to come.
  std::size_t unfinished() const {
    for (std::size_t back = 1; back <= std::min<std::size_t>(3, rest_.size()); ++back) {
      const auto byte = static_cast<unsigned char>(rest_[rest_.size() - back]);
      if (byte >> 6 == 2) continue;  // one that is not the first of its character
      const std::size_t length = byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
      return length > back ? back : 0;
    }
    return 0;
  }

  std::string rest_;
};

SamplingOptions sampling_of(const Flags& flags, const Prompts& prompts) {
  return {.count = flags.generate,
          .temperature = flags.temperature,
          .top_k = flags.top_k,
          .top_p = flags.top_p,
          .seed = static_cast<std::uint64_t>(flags.seed),
          .stop = prompts.stop,
          .vocabulary = std::min(prompts.tokenizer.vocabulary(), flags.vocabulary)};
}

}  // namespace

void check_lengths(std::int64_t prompt, std::int64_t count, std::int64_t sequence) {
  require(prompt >= 1, "generate: the prompt is empty; give at least one token");
  require(prompt + count <= sequence + 1,
          "generate: a prompt of {} tokens and {} more exceed the model's sequence of {}", prompt,
          count, sequence);
}

std::optional<Prompts> prompts_of(const Flags& flags, const DecoderOptions& options) {
  for (const char* flag :
       {"--prompt", "--prompts", "--temperature", "--top-k", "--top-p", "--stop", "--logits"})
    cli::require_effect(flags.given, flag, flags.generate == 0, "without --generate");
  cli::require_effect(flags.given, "--logits", !flags.prompts.empty(), "beside --prompts");
  if (flags.generate == 0) return {};
  const Tokenizer tokenizer = make_tokenizer(flags);
  Prompts prompts{tokenizer, texts_of(flags), {}, stop_of(flags, tokenizer)};
  for (const std::string& text : prompts.texts) {
    prompts.tokens.push_back(tokenizer.encode_whole(text));
    check_lengths(std::ssize(prompts.tokens.back()), flags.generate, options.sequence);
    check_prompt(flags, prompts.tokens.back(), tokenizer);
  }
  return prompts;
}

GeneratorOptions generator_options(const Flags& flags, const Prompts& prompts,
                                   const Adapters& adapters) {
  return {.rows = std::min<std::int64_t>(std::ssize(prompts.tokens), kMostAtOnce),
          .length = longest(prompts) + flags.generate - 1,
          .chunk = std::min<std::int64_t>(longest(prompts), 256),
          .evaluation = {.precision = precision_of(flags),
                         .lora = adapters.lora,
                         .quantized = adapters.quantized}};
}

void print_text(const Flags& flags, const Prompts& prompts, const Generator& generator,
                TrainState& state) {
  SamplingOptions sampling = sampling_of(flags, prompts);
  const bool streams = prompts.texts.size() == 1;
  TextStream stream;
  if (streams) {
    stream.print("generated   " + prompts.texts[0]);
    sampling.on_token = [&](std::size_t, std::int32_t token) {
      stream.print(prompts.tokenizer.decode({{token}}, false));
    };
  }
  const std::vector<TokenIds> texts = generate(generator, state, prompts.tokens, sampling);
  if (streams) return stream.end();
  for (std::size_t i = 0; i < texts.size(); ++i)
    fmt::print("generated   {}{}\n", prompts.texts[i],
               valid_utf8(prompts.tokenizer.decode(texts[i], false)));
}

}  // namespace programs
