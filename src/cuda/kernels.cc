// The table of operators that have a CUDA kernel.
#include <algorithm>
#include <iterator>

#include "loads.h"

namespace alpa::cuda {
namespace {

struct Entry {
  std::string_view op;
  Load load;
};

/// Elementwise operators are known by their codes.
constexpr Entry kLoads[] = {
    {"fused", load_fused},
    {"einsum", load_einsum},
    {"einsum_epilogue", load_einsum_epilogue},
    {"reduce_sum", load_reduce},
    {"reduce_max", load_reduce},
    {"reshape", load_reshape},
    {"transpose", load_transpose},
    {"broadcast", load_broadcast},
    {"constant", load_constant},
    {"iota", load_iota},
    {"random_normal", load_random_normal},
    {"random_uniform", load_random_uniform},
    {"adam_update", load_adam_update},
    {"adam_updates", load_adam_update},
    {"sgd_update", load_sgd_update},
    {"sgd_updates", load_sgd_update},
    {"squared_norms", load_squared_norms},
};

}  // namespace

Load find_kernel(const OpDef& op) {
  const auto* const entry = std::find_if(std::begin(kLoads), std::end(kLoads),
                                         [&](const Entry& known) { return known.op == op.name; });
  if (entry != std::end(kLoads)) return entry->load;
  return op.elementwise >= 0 ? load_elementwise : nullptr;
}

}  // namespace alpa::cuda
