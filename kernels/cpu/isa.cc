// kernels/cpu/isa.cc — chooses the instruction set of the CPU kernels at start
#include "kernels/cpu/isa.h"

#include <atomic>
#include <vector>

namespace alpa::cpu {
namespace {

/// Instruction sets that this processor supports, best first.
std::vector<Isa> usable_isas() {
  std::vector<Isa> usable;
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (has_avx2 && has_avx512) usable.push_back(avx512::named("avx512"));
  if (has_avx2) usable.push_back(avx2::named("avx2"));
#endif
  usable.push_back(baseline::named("baseline"));
  return usable;
}

const std::vector<Isa>& usable() {
  static const std::vector<Isa> isas = usable_isas();
  return isas;
}

std::atomic<const Isa*>& current() {
  static std::atomic<const Isa*> isa{&usable().front()};
  return isa;
}

}  // namespace

const Isa& isa() { return *current().load(std::memory_order_relaxed); }

bool select_isa(std::string_view name) {
  for (const Isa& isa : usable())
    if (isa.name == name) {
      current() = &isa;
      return true;
    }
  return false;
}

}  // namespace alpa::cpu
