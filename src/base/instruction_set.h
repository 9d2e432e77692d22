#pragma once
/// The instruction set that kernels use.
#include <string_view>

namespace alpa {

/// "AVX-512", "AVX2" or "baseline": processors of equal sets round alike.
inline std::string_view instruction_set() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return "AVX-512";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "AVX2";
#endif
  return "baseline";
}

}  // namespace alpa
