// kernels/cpu/write_rows.cc — rows to their positions in a tensor
#include <algorithm>

#include "kernels/cpu/kernels.h"
#include "kernels/plan/written_rows.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

constexpr std::int64_t kGrain = 64 << 10;  ///< bytes worth a thread

void copy_shared(const KernelTensor& from, const KernelTensor& to, ThreadTeam& team) {
  team.parallel_for(from.type.bytes(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::copy(from.data + begin, from.data + end, to.data + begin);
  });
}

void run_write_rows(const KernelCall& call) {
  const KernelTensor &x = call.inputs[0], &rows = call.inputs[1], &y = call.outputs[0];
  const kernels::WrittenRows s = kernels::written_rows(call);
  const auto* const positions = call.inputs[2].as<std::int32_t>();
  if (y.data != x.data) copy_shared(x, y, *call.team);
  const std::int64_t all = s.batch * s.count;
  call.team->for_each(all, kGrain / std::max<std::int64_t>(1, s.bytes) + 1, [&](std::int64_t i) {
    const std::int64_t b = i / s.count, place = positions[b] + i % s.count;
    if (place >= 0 && place < s.extent)
      std::copy_n(rows.data + i * s.bytes, s.bytes, y.data + (b * s.extent + place) * s.bytes);
  });
}

}  // namespace

const KernelDef write_rows{run_write_rows};

}  // namespace alpa::cpu
