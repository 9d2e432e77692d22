#pragma once
/// Flags and tasks of language models.
#include <span>
#include <string>
#include <string_view>

#include "models/common/flags.h"
#include "models/common/task.h"

namespace models {

/// Flags of programs that train on sequences of tokens.
struct LanguageFlags : CommonFlags {
  std::string model = "tiny", dtype = "f32", data = "made";
  std::int64_t sequence = 128, vocabulary = 256;

  LanguageFlags() { batch = 8; }
};

/// The rows of `flags`; `sizes`: the values of --model.
std::vector<cli::Flag> rows_of_language(LanguageFlags& flags, std::span<const std::string> sizes);

/// A task on "tokens" and "labels", i32 [batch, sequence].
Task language_task(const LanguageFlags& flags,
                   std::function<alpa::LossAndMetrics(const alpa::Batch&)> model);

}  // namespace models
