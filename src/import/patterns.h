#pragma once
/// Recognises what several operations compute together, and puts one operator of alpa in their
/// place. Only values that nothing else reads vanish.
#include "src/import/flat.h"

namespace alpa::stablehlo {

/// The function with patterns in place of operations. `found` gets their names, one for each.
FlatFunction with_patterns(FlatFunction flat, std::vector<std::string>& found);

}  // namespace alpa::stablehlo
