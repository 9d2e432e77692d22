#pragma once
/// Functions of JAX in files, as the steps that are planned.
#include <string>
#include <string_view>

#include "alpa/import/stablehlo.h"

namespace tools {

/// Whether a text is StableHLO, rather than a graph or a plan.
bool is_stablehlo(std::string_view text);

/// The function in `text`. Throws Error that names the file `path`.
alpa::Imported imported(const std::string& text, const std::string& path);

/// A loss trained by `optimizer`, or a whole step as it is. Throws Error that names `path`.
alpa::TrainingStep imported_step(const alpa::Imported& function, const std::string& path,
                                 const alpa::Optimizer& optimizer,
                                 const alpa::ImportedStepOptions& options = {});

/// "a loss of 12 parameters; 2 attention, 1 cross_entropy"
std::string imported_text(const alpa::Imported& function, const alpa::Graph& graph);

}  // namespace tools
