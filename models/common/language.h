#pragma once
/// Flags and tasks of language models.
#include <string>

#include "models/common/flags.h"
#include "models/common/task.h"

namespace programs {

/// The rows of language models behind the model's `own`; `sizes`: the values of --model.
std::vector<cli::Flag> rows_of_language(Flags& flags, const std::vector<std::string>& sizes,
                                        const ModelRows& own = {});

/// Extents of a published model, for those that are not given.
void publish_text(Flags& flags, std::int64_t sequence, std::int64_t vocabulary);

/// The tokenizer of --tokenizer: "bytes", or a directory for `Tokenizer::of_folder`.
alpa::Tokenizer make_tokenizer(const Flags& flags);

/// A task on "tokens" and "labels", i32 [batch, sequence]: made sequences, or those of a text file,
/// of which --test-share is the test set. Throws Error if the tokenizer has more tokens than
/// --vocabulary, or the text is too short.
Task language_task(const Flags& flags,
                   std::function<alpa::LossAndMetrics(const alpa::Batch&)> model);

}  // namespace programs
