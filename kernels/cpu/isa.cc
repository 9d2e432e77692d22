// kernels/cpu/isa.cc — chooses the instruction set of the CPU kernels at start
#include "kernels/cpu/isa.h"

#include <dnnl.h>

#include <atomic>
#include <cstdlib>
#include <vector>

#include "alpa/base/error.h"

namespace alpa::cpu {
namespace {

/// The environment's limit; throws Error if it names no instruction set.
std::string_view most_allowed() {
  const char* const text = std::getenv("ALPA_MAX_CPU_ISA");
  const std::string_view name = text != nullptr && *text != '\0' ? text : "avx512";
  require(name == "baseline" || name == "avx2" || name == "avx512",
          "ALPA_MAX_CPU_ISA is \"{}\"; it must be baseline, avx2 or avx512, or unset for the best "
          "that the processor has",
          name);
  return name;
}

/// Instruction sets that this processor supports and the environment allows, best first.
std::vector<Isa> usable_isas() {
  const std::string_view most = most_allowed();
  std::vector<Isa> usable;
#if defined(__x86_64__)
  [[maybe_unused]] const bool has_avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
#if defined(ALPA_HAS_avx512)
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (most == "avx512" && has_avx2 && has_avx512) usable.push_back(avx512::named("avx512"));
#endif
#if defined(ALPA_HAS_avx2)
  if (most != "baseline" && has_avx2) usable.push_back(avx2::named("avx2"));
#endif
#if defined(ALPA_HAS_baseline)
  usable.push_back(baseline::named("baseline"));
#endif
  require(!usable.empty(),
          "this build's CPU kernels are for another processor (ALPA_NATIVE=ON), or "
          "ALPA_MAX_CPU_ISA={} excludes them; build with ALPA_NATIVE=OFF",
          most);
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

std::string instruction_sets() {
  return fmt::format("kernels for {}, oneDNN's for {:#x}", isa().name,
                     static_cast<unsigned>(dnnl_get_effective_cpu_isa()));
}

bool select_isa(std::string_view name) {
  for (const Isa& isa : usable())
    if (isa.name == name) {
      current() = &isa;
      return true;
    }
  return false;
}

}  // namespace alpa::cpu
