#pragma once
/// Recognises what several operations compute together, and puts one operator of alpa in their
/// place. Only values that nothing else reads vanish.
#include "src/import/flat.h"

namespace alpa::stablehlo {

/// The function with patterns in place of operations. `found` gets their names, one for each.
FlatFunction with_patterns(FlatFunction flat, std::vector<std::string>& found);

/// The function with our uniform random numbers in place of jax's. Those that are drawn twice from
/// the same bits are one tensor.
FlatFunction with_own_random(FlatFunction flat);

}  // namespace alpa::stablehlo
