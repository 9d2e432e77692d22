#include "kernels/cpu/isa.h"

namespace alpa::cpu {
namespace {

const IsaTable& best_table() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return avx512::table();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2::table();
#endif
  return baseline::table();
}

}  // namespace

const IsaTable& isa() {
  static const IsaTable& table = best_table();
  return table;
}

}  // namespace alpa::cpu
