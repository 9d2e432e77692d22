#pragma once
/// The epilogues that the CUDA backend computes in one kernel, on any machine.
#include "src/lower/backend.h"
#include "src/spmd/program.h"

namespace alpa::testing {

inline spmd::SpmdProgram with_cuda_epilogues(const spmd::SpmdProgram& program) {
  return spmd::fuse_epilogues(program, lower::find_backend("cuda").fuses_epilogue);
}

}  // namespace alpa::testing
