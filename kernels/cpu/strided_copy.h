#pragma once
/// Copies a strided view into a dense tensor; used for transposition, broadcasting and packing.
#include "kernels/plan/strided_copy_plan.h"

namespace alpa {
class ThreadTeam;
}

namespace alpa::cpu {

void strided_copy(const kernels::StridedCopy& plan, std::byte* dst, const std::byte* src,
                  ThreadTeam& team);

}  // namespace alpa::cpu
