// src/runtime/initialize.cc — initialises state inputs from a seed
#include "initialize.h"

#include "kernels/cpu/kernels.h"
#include "src/base/fnv.h"

namespace alpa::runtime {
void initialize(const KernelTensor& shard, const std::string& name, const Attributes& attributes,
                std::uint64_t seed, ThreadTeam& team) {
  const std::string& kind = attributes.string("init");
  const double a = attributes.real("a"), b = attributes.real("b");
  const StepContext context{seed, 0, 0};
  const Attributes drawn{
      {"value", a}, {"stream", static_cast<std::int64_t>(fnv1a(name))}, {"a", a}, {"b", b}};
  KernelCall call;
  call.outputs = {shard};
  call.attributes = &drawn;
  call.step = &context;
  call.team = &team;
  call.threads = team.size();
  const KernelDef& kernel = kind == "normal"    ? cpu::random_normal
                            : kind == "uniform" ? cpu::random_uniform
                                                : cpu::constant;
  kernel.run(call);
}

}  // namespace alpa::runtime
