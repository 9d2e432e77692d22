#pragma once
/// Text, token by token, from decoders as they are trained.
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "alpa/nn/sequential.h"
#include "alpa/nn/transformer.h"
#include "alpa/parallelize.h"
#pragma GCC visibility push(default)

namespace alpa {

/// A text: its tokens by their numbers in the vocabulary.
using TokenIds = std::vector<std::int32_t>;

/// Sizes of a `Generator`.
struct GeneratorOptions {
  std::int64_t rows = 1;       ///< prompts that are continued at once
  std::int64_t length = 1024;  ///< tokens of a prompt with its continuation
  /// Tokens of a prompt that one step takes. Shorter prompts are padded, longer ones take several
  /// steps.
  std::int64_t chunk = 64;
  EvaluationOptions evaluation = {};  ///< element types, as of an evaluation step
};

/// The two steps of generation, compiled: one takes a chunk of every prompt, one takes a token of
/// every row. Copies share the devices. A decoder gives logits [B, T, V] of what follows each of
/// the tokens i32 [B, T], or [B, 1, V], of each row's last one (`nn::needed_tokens`). Its attention
/// finds the `nn::KeyValueCache` of earlier tokens.
class Generator {
 public:
  /// Along the plan of `trained`, whose parameters it reads in place. Products, heads and caches
  /// are split as there. The states of `trained` serve it, and training may go on between calls of
  /// `generate`. Throws Error as `parallelize`, or if a size is below 1.
  Generator(const nn::Layer& decoder, const Executable& trained,
            const GeneratorOptions& options = {});
  /// With a plan and states of its own, for parameters that are loaded.
  Generator(const nn::Layer& decoder, const Method& method, const Cluster& cluster,
            const GeneratorOptions& options = {});

  /// A state of the decoder's parameters.
  TrainState init(std::uint64_t seed) const { return prompts_.init(seed); }
  const GeneratorOptions& options() const { return options_; }  ///< as given
  const Executable& prompts() const { return prompts_; }        ///< the step of prompts
  const Executable& tokens() const { return tokens_; }          ///< the step of single tokens

 private:
  Generator(const nn::Layer& decoder, const GeneratorOptions& options, Executable prompts);
  GeneratorOptions options_;
  Executable prompts_, tokens_;
};

/// How tokens are drawn.
struct SamplingOptions {
  std::int64_t count = 100;  ///< new tokens of each prompt, at most
  double temperature = 1;    ///< divides the logits; 0: always the likeliest token
  std::int64_t top_k = 0;    ///< of the likeliest tokens; 0: of all
  /// Of the likeliest tokens, the fewest whose probabilities add up to this (Holtzman et al. 2019).
  double top_p = 1;
  std::uint64_t seed = 0;  ///< each prompt draws numbers of its own
  TokenIds stop = {};      ///< a continuation ends before the first of these
  /// Draws tokens below this number, those that a tokenizer has; 0: all of the decoder's.
  std::int64_t vocabulary = 0;
  /// Called with the number of a prompt and its next token, as soon as that is known.
  std::function<void(std::size_t prompt, std::int32_t token)> on_token = {};
};

/// A token drawn with the probabilities softmax(logits / temperature) of those that `options`
/// leave. `number` is uniform in [0, 1). Of equal logits the first counts as likelier.
std::int32_t sample(std::span<const float> logits, const SamplingOptions& options, double number);

/// The continuation of each prompt, drawn with the parameters of `state`. It does not depend on the
/// other prompts, nor, but for rounding, on the plan. Throws Error naming the prompt that is empty,
/// has a token below 0 or at least `vocabulary`, or exceeds the generator's length with its
/// continuation; and if an option is out of range.
std::vector<TokenIds> generate(const Generator& generator, TrainState& state,
                               const std::vector<TokenIds>& prompts,
                               const SamplingOptions& options = {});

}  // namespace alpa
#pragma GCC visibility pop
