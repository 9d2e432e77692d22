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

/// Gives the flags of data the values that go with the model of --load's folder. Throws Error for
/// more tokens in an example than it has positions.
void follow_text(Flags& flags, const std::string& folder, std::int64_t vocabulary,
                 std::int64_t positions);

/// The tokenizer of --tokenizer: "bytes", or a directory for `Tokenizer::of_folder`.
alpa::Tokenizer make_tokenizer(const Flags& flags);

/// Whether --data is a file of JSON lines: its name ends in .jsonl, or .jsonl.gz.
bool has_json_lines(const Flags& flags);

/// The examples of such a file, with the chat template of --tokenizer's directory. Throws Error if
/// the tokenizer has more tokens than the model, or as `read_json_lines`.
std::vector<alpa::TextExample> json_lines_of(const Flags& flags);

/// A model's loss of "tokens" and "labels", and of batches of `packed_batches`; empty: it has none.
struct LanguageModel {
  std::function<alpa::LossAndMetrics(const alpa::Batch&)> loss, packed_loss = {};
};

/// A task on "tokens" and "labels", i32 [batch, sequence]: made sequences, those of a text file, or
/// examples of JSON lines, which are packed. --test-share is the test set. Throws Error if the
/// tokenizer has more tokens than --vocabulary, or the text is too short.
Task language_task(const Flags& flags, const LanguageModel& model);

}  // namespace programs
