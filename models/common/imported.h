#pragma once
/// Functions of JAX in files, as the steps that are planned and trained.
#include <string>
#include <string_view>

#include "alpa/import/stablehlo.h"
#include "models/common/flags.h"

namespace programs {

/// Whether a text is StableHLO, rather than a graph or a plan.
bool is_stablehlo(std::string_view text);

/// What says how a function is read: --parameters and --random.
std::vector<cli::Flag> rows_of_import(Flags& flags);

alpa::ImportOptions import_options(const Flags& flags);

/// The function in `text`, as the flags say. Throws Error that names the file `path`.
alpa::Imported imported(const std::string& text, const std::string& path, const Flags& flags);

/// A loss trained as the flags say, or a whole step as it is. `initial`: as in
/// `ImportedStepOptions`. Throws Error that names `path`, or a flag that a whole step lacks.
alpa::TrainingStep imported_step(
    const alpa::Imported& function, const std::string& path, const Flags& flags,
    std::function<alpa::Initializer(const alpa::ImportedTensor&)> initial = {});

/// "a loss of 12 parameters; 2 attention, 1 cross_entropy"
std::string imported_text(const alpa::Imported& function, const alpa::Graph& graph);

/// `train FILE …`: trains the loss, or runs the whole step, that the file holds.
int train_imported(int argc, char** argv);

}  // namespace programs
