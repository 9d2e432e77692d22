// tools/imported.cc — StableHLO files of `alpa plan`, `explain`, `report`, `what-if` and `verify`
#include "tools/imported.h"

#include <fmt/core.h>

#include <algorithm>

#include "alpa/ir/graph.h"

namespace tools {

using namespace alpa;

namespace {

template <class Make>
auto naming(const std::string& path, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    fail("{}: {}", path, error.what());
  }
}

}  // namespace

bool is_stablehlo(std::string_view text) {
  const std::size_t start = std::min(text.find_first_not_of(" \n"), text.size());
  const std::string_view begin = text.substr(start);
  return begin.starts_with("\"builtin.module\"") || begin.starts_with("#loc") ||
         begin.starts_with("module ") || begin.starts_with("ML\xefR");
}

Imported imported(const std::string& text, const std::string& path) {
  return naming(path, [&] { return import_stablehlo(text); });
}

TrainingStep imported_step(const Imported& function, const std::string& path,
                           const Optimizer& optimizer, const ImportedStepOptions& options) {
  return naming(path, [&] {
    return function.is_loss() ? training_step(function, optimizer, options)
                              : whole_step(function, options);
  });
}

std::string imported_text(const Imported& function, const Graph& graph) {
  const auto state = std::ranges::count_if(graph.inputs, [](const Input& input) {
    return input.kind == InputKind::state && input.of.empty();
  });
  std::string text = fmt::format("{} of {} {}", function.is_loss() ? "a loss" : "a whole step",
                                 state, function.is_loss() ? "parameters" : "tensors of state");
  for (const Recognised& found : function.recognised)
    text += fmt::format("{} {} {}", &found == &function.recognised.front() ? ";" : ",", found.times,
                        found.pattern);
  return text;
}

}  // namespace tools
