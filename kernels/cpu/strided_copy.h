#pragma once
/// Copies a strided view into a dense tensor: transposition, broadcasting and packing are all this.
#include "kernels/plan/strided_copy_plan.h"

namespace alpa {
class ThreadTeam;
}

namespace alpa::cpu {

void strided_copy(const kernels::StridedCopy& plan, std::byte* dst, const std::byte* src, ThreadTeam& team);

}  // namespace alpa::cpu
