#pragma once
/// Flags of alpa-gpt, and the decoder that they describe.
#include "alpa/models/pretrained.h"
#include "models/common/language.h"

namespace programs {

struct GptFlags : LanguageFlags {
  std::string kind = "gpt", head = "auto";
  std::int64_t layers = 0, hidden = 0, heads = 0, key_heads = 0, feed_forward = 0, positions = 0;
  double dropout = 0, norm_epsilon = 0, rotary_base = 0;
  std::string load, save, logits;
  std::int64_t generate = 0, top_k = 40;
  double temperature = 0.8, top_p = 1;
  std::string prompt = "The ", prompts, stop;
  std::optional<alpa::models::Pretrained> pretrained;  ///< what the folder of --load says
};

std::vector<cli::Flag> rows_of_gpt(GptFlags& flags);

/// Reads the folder of --load into `pretrained`, and gives flags that depend on it their values; of
/// a file nothing is read. Throws Error if a flag was given that the folder decides.
void read_folder(GptFlags& flags);

/// The decoder of the flags. With --load and --head auto, its head is that of the file.
alpa::models::DecoderOptions options_of(const GptFlags& flags);

}  // namespace programs
