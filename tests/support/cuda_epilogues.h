#pragma once
/// The epilogues that the CUDA backend computes in one kernel, on any machine.
#include "src/runtime/backend.h"

namespace alpa::testing {

inline SpmdProgram with_cuda_epilogues(const SpmdProgram& program) {
  return fuse_epilogues(program, find_backend("cuda").fuses_epilogue);
}

}  // namespace alpa::testing
