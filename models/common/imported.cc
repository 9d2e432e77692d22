// models/common/imported.cc — StableHLO files of `alpa train`, `plan`, `explain`, `report`, …
#include "models/common/imported.h"

#include <fmt/core.h>

#include <algorithm>

#include "alpa/ir/graph.h"

namespace programs {

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

std::vector<cli::Flag> rows_of_import(Flags& f) {
  return cli::in_group(
      "Model", {cli::text("--parameters", &f.parameters,
                          "of a loss of JAX: how many of the first arguments are trained, or a "
                          "pattern of their names"),
                cli::choice("--random", &f.random,
                            "random numbers of a function of JAX: those that it computes, or ours, "
                            "which are new in every step and take few operators",
                            {"as_written", "ours"})});
}

ImportOptions import_options(const Flags& flags) {
  return {.random = flags.random == "ours" ? RandomNumbers::ours : RandomNumbers::as_written};
}

Imported imported(const std::string& text, const std::string& path, const Flags& flags) {
  return naming(path, [&] { return import_stablehlo(text, import_options(flags)); });
}

TrainingStep imported_step(const Imported& function, const std::string& path, const Flags& flags,
                           std::function<Initializer(const ImportedTensor&)> initial) {
  for (const char* flag : {"--precision", "--optimizer", "--learning-rate", "--warmup", "--remat",
                           "--micro-batches", "--parameters"})
    cli::require_effect(flags.given, flag, !function.is_loss(),
                        "on a whole step of JAX, which is as it is");
  // No text marks layers to compute again, so only what is asked for is tried.
  const Remat remat = flags.given.contains("--remat") ? remat_of(flags) : Remat::none;
  const ImportedStepOptions options{
      .parameters = flags.parameters,
      .micro_batches = flags.micro_batches == "auto" ? 1 : std::stoi(flags.micro_batches),
      .initial = std::move(initial),
      .step = {.precision = precision_of(flags), .remat = remat}};
  return naming(path, [&] {
    return function.is_loss() ? training_step(function, make_optimizer(flags), options)
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

}  // namespace programs
