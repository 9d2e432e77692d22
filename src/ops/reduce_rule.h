#pragma once
/// Shared by reductions over dimensions. Attributes: "axes" (ascending, never
/// empty), "keep_dims" (0 or 1).
#include "src/ir/op_def.h"
#include "src/ir/recorder.h"

namespace alpa::ops {

/// Reduced dimensions vanish from the result, or stay without a factor. Throws Error on a bad axis.
Rule reduce_rule(const OpQuery& query, Combiner combiner);

/// Emits `op` over `axes` (all when empty); x itself when it is a scalar.
Value emit_reduce(const OpDef& op, Value x, const std::vector<std::int64_t>& axes, bool keep_dims);

/// `y`, a result or its gradient, with the reduced dimensions of `reduction`
/// put back as extents of 1.
Value with_kept_dims(Recorder& g, const Node& reduction, Value y);

}  // namespace alpa::ops
