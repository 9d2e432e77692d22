// src/train/parameter_pattern.cc — matches parameter names against patterns of
// a training step's options
#include "parameter_pattern.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "alpa/base/text.h"

namespace alpa {

bool matches_any(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches(pattern, name); });
}

const std::string& name_of(Value parameter) {
  return recorder(parameter).node(recorder(parameter).producer(parameter.id)).name;
}

void require_matches(const Recorder& builder, const std::vector<std::string>& patterns,
                     std::string_view option) {
  std::vector<std::string> names;
  for (Value parameter : builder.parameters()) names.push_back(name_of(parameter));
  for (const std::string& pattern : patterns)
    if (std::none_of(names.begin(), names.end(),
                     [&](const std::string& name) { return matches(pattern, name); }))
      fail("StepOptions::{}: \"{}\" matches no trained parameter; these are {}", option,
           excerpt(pattern), quoted_names(names));
}

}  // namespace alpa
