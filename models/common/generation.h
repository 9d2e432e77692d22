#pragma once
/// Texts that a decoder continues after the training.
#include <optional>
#include <string>
#include <vector>

#include "models/common/decoder_flags.h"

namespace programs {

/// Texts to continue.
struct Prompts {
  alpa::Tokenizer tokenizer;
  std::vector<std::string> texts;
  std::vector<alpa::TokenIds> tokens;  ///< of the texts
  alpa::TokenIds stop;                 ///< at which continuations end
};

/// Throws Error if the prompt is empty, or both together exceed a decoder's `sequence`.
void check_lengths(std::int64_t prompt, std::int64_t count, std::int64_t sequence);

/// Those of --prompt or --prompts, if the flags want any continued. Throws Error if one can't be,
/// or if flags of generation have no effect.
std::optional<Prompts> prompts_of(const Flags& flags, const alpa::models::DecoderOptions& options);

/// Sizes for these prompts.
alpa::GeneratorOptions generator_options(const Flags& flags, const Prompts& prompts,
                                         const Adapters& adapters);

/// Prints the prompts with their continuations: one as it comes, several when all are done.
void print_text(const Flags& flags, const Prompts& prompts, const alpa::Generator& generator,
                alpa::TrainState& state);

}  // namespace programs
