#pragma once
/// Uses of mesh axes: plans by hand as choices of a search.
#include <cstdint>
#pragma GCC visibility push(default)

namespace alpa {

/// The use of one mesh axis.
enum class AxisUse : std::uint8_t {
  any,    ///< not restricted
  batch,  ///< splits the batch; each state tensor is whole or split, whichever is cheaper
  data,   ///< splits the batch and nothing else
  zero2,  ///< splits the batch, and the optimizer's state as far as its shapes allow
  zero3,  ///< splits the batch, and all state as far as its shapes allow
  /// splits heads and hidden features as Megatron-LM does, and tokens where there are none
  tensor,
};

}  // namespace alpa
#pragma GCC visibility pop
