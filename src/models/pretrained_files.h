#pragma once
/// Files of folders as transformers writes them, of any model.
#include <string>

#include "alpa/weights.h"

namespace alpa::models {

/// The file of the weights. Throws Error if the folder has none.
std::string weights_in(const std::string& folder);

/// Throws Error if the folder is `from`.
void check_other_folder(const std::string& folder, const std::string& from);

/// Writes the folder: the weights under their names, and the other files of `from`. Throws Error if
/// a file can't be written, or if the folder is `from`.
void save_folder(const TrainState& state, const std::string& folder, const std::string& from,
                 const WeightMap& names);

}  // namespace alpa::models
