#pragma once
/// Combines several runs of memory elementwise, in the given order.
#include <cstddef>
#include <cstdint>
#include <span>

#include "alpa/base/dtype.h"
#include "alpa/mesh/sharding_spec.h"

namespace alpa::comm {

/// targets[·][i] = sources[0][i] ⊕ sources[1][i] ⊕ … for `count` elements; bf16 and f16 are
/// combined in f32 and rounded once, integers wrap, a maximum is NaN if one element is. A target
/// may be one of the sources. Needs at least one source.
void combine(DType dtype, Combiner combiner, std::span<const std::byte* const> sources,
             std::span<std::byte* const> targets, std::int64_t count);

}  // namespace alpa::comm
