#pragma once
/// Patterns of parameter names.
#include <string>
#include <string_view>
#include <vector>

#include "src/base/wildcard.h"
#include "src/ir/recorder.h"

namespace alpa {

/// True if the whole name fits one of the patterns.
bool matches_any(const std::vector<std::string>& patterns, std::string_view name);

/// True of the name of an adapter's parameter (`Lora`).
inline bool is_adapter(std::string_view name) {
  return name.ends_with(".lora_a") || name.ends_with(".lora_b");
}

/// The name of a parameter.
const std::string& name_of(Value parameter);

/// Throws Error unless every pattern fits one of the builder's trained parameters.
/// `option` for the message.
void require_matches(const Recorder& builder, const std::vector<std::string>& patterns,
                     std::string_view option);

}  // namespace alpa
