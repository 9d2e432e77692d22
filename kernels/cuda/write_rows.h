#pragma once
/// Rows to positions in a tensor: contract of `cpu::write_rows`.
#include "kernels/cuda/launch.h"
#include "kernels/plan/written_rows.h"

namespace alpa::cuda {

/// Rows alone are moved: y holds x already.
Status run_write_rows(const kernels::WrittenRows& shape, const void* rows,
                      const std::int32_t* positions, void* y, Stream stream);

}  // namespace alpa::cuda
