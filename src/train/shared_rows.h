#pragma once
/// Batches whose rows the processes of a launch load in parts.
#include <cstdint>
#include <span>

#include "alpa/tensor/array.h"
#include "src/processes/world.h"

namespace alpa {

/// The rows of a batch that this process loads: consecutive ones; none if there are too few.
std::span<const std::int64_t> share_of(std::span<const std::int64_t> rows,
                                       const processes::World& world);

/// The whole batch, in every process, from the shares of all, in the order of ranks. Collective.
/// `number`: of the batch in its loop, for messages. Throws Error if shares have other inputs or
/// types.
BatchData joined(const BatchData& share, processes::World& world, std::int64_t number);

}  // namespace alpa
