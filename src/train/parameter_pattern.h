#pragma once
/// Patterns of parameter names: `*` matches any text, every other character itself.
#include <string>
#include <string_view>
#include <vector>

#include "src/ir/recorder.h"

namespace alpa {

/// Whether the whole name fits the pattern.
bool matches(std::string_view pattern, std::string_view name);

/// The name of a parameter.
const std::string& name_of(Value parameter);

/// Throws Error unless every pattern fits one of the builder's trained parameters.
/// `option` for the message.
void require_matches(const Recorder& builder, const std::vector<std::string>& patterns,
                     std::string_view option);

/// Freezes parameters that fit one of the patterns. Throws Error if a pattern fits none.
void freeze_matching(Recorder& builder, const std::vector<std::string>& patterns);

}  // namespace alpa
