#pragma once
/// Flags and tasks of language models.
#include <span>
#include <string>

#include "models/common/flags.h"
#include "models/common/task.h"

namespace programs {

/// Flags of programs that train on sequences of tokens.
struct LanguageFlags : CommonFlags {
  std::string model = "tiny", dtype = "f32", data = "made", tokenizer = "bytes";
  std::int64_t sequence = 128, vocabulary = 256;
  double test_share = 0.05;                      ///< of a text, at its end
  std::string vocabulary_name = "--vocabulary";  ///< who says it, in messages

  LanguageFlags() { batch = 8; }
};

/// The rows of `flags`; `sizes`: the values of --model.
std::vector<cli::Flag> rows_of_language(LanguageFlags& flags, std::span<const std::string> sizes);

/// The tokenizer of --tokenizer: "bytes", or a directory for `Tokenizer::of_folder`.
alpa::Tokenizer make_tokenizer(const LanguageFlags& flags);

/// A task on "tokens" and "labels", i32 [batch, sequence]: made sequences, or those of a text file,
/// of which --test-share is the test set. Throws Error if the tokenizer has more tokens than
/// --vocabulary, or the text is too short.
Task language_task(const LanguageFlags& flags,
                   std::function<alpa::LossAndMetrics(const alpa::Batch&)> model);

}  // namespace programs
