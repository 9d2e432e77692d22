#pragma once
/// Devices that run alike.
#include <vector>

#include "alpa/spmd/program.h"

namespace alpa {

/// The first rank of every class of ranks whose instruction lists (`emit`) differ in peers and in offsets
/// into whole tensors alone: they need the same memory. Rank 0 comes first. Evenly split programs have one
/// class, others about two per axis.
std::vector<int> first_ranks_of_classes(const SpmdProgram& program);

}  // namespace alpa
