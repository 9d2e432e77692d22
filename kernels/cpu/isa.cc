#include "kernels/cpu/isa.h"

namespace alpa::cpu {
namespace {

Isa best_isa() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return {"avx512", avx512::elementwise_table(), avx512::reduce_table(), avx512::update_table(),
            avx512::random_table()};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {"avx2", avx2::elementwise_table(), avx2::reduce_table(), avx2::update_table(),
            avx2::random_table()};
#endif
  return {"baseline", baseline::elementwise_table(), baseline::reduce_table(), baseline::update_table(),
          baseline::random_table()};
}

}  // namespace

const Isa& isa() {
  static const Isa best = best_isa();
  return best;
}

}  // namespace alpa::cpu
