#pragma once
/// Matrix products in f32 that copy their operands into panels first, block by block (Goto & van de
/// Geijn 2008): their speed does not depend on how far apart an operand's lines are.
#include <cstdint>

namespace alpa::cpu {

/// Rows of a left or columns of a right operand: elements from line to line, and along k. One of
/// both is 1.
struct PackedOperand {
  const float* data = nullptr;
  std::int64_t line_stride = 0, k_stride = 0;
};

/// Floats of scratch for `packed_gemm` of these extents.
std::int64_t packed_gemm_floats(std::int64_t m, std::int64_t n, std::int64_t k);

/// c [m, n], of rows c_lead apart, = a b in the calling thread. An element is the same sum in the
/// same order, whatever part of a product m and n are.
void packed_gemm(std::int64_t m, std::int64_t n, std::int64_t k, PackedOperand a, PackedOperand b,
                 float* c, std::int64_t c_lead, float* scratch);

}  // namespace alpa::cpu
