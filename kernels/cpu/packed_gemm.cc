// kernels/cpu/packed_gemm.cc — matrix products of panels
#include "kernels/cpu/packed_gemm.h"

#include <algorithm>

#include "kernels/cpu/isa.h"

namespace alpa::cpu {
namespace {

/// A panel of the right operand stays in the first cache (16 KiB), a block of the left one in the
/// second (144 KiB).
constexpr std::int64_t kDepth = 256, kRows = 144, kColumns = 512;
/// What packing may store beyond a panel.
constexpr std::int64_t kBeyond = 8;

std::int64_t panel_floats(std::int64_t lines, std::int64_t width, std::int64_t k) {
  return (lines + width - 1) / width * width * std::min(k, kDepth) + kBeyond;
}

PackedOperand from(const PackedOperand& x, std::int64_t line, std::int64_t k) {
  return {x.data + line * x.line_stride + k * x.k_stride, x.line_stride, x.k_stride};
}

}  // namespace

std::int64_t packed_gemm_floats(std::int64_t m, std::int64_t n, std::int64_t k) {
  const GemmTable& table = isa().gemm;
  return panel_floats(std::min(m, kRows), table.rows, k) +
         panel_floats(std::min(n, kColumns), table.columns, k);
}

void packed_gemm(std::int64_t m, std::int64_t n, std::int64_t k, PackedOperand a, PackedOperand b,
                 float* c, std::int64_t c_lead, float* scratch) {
  const GemmTable& table = isa().gemm;
  float* const columns = scratch + panel_floats(std::min(m, kRows), table.rows, k);
  for (std::int64_t j = 0; j < n; j += kColumns)
    for (std::int64_t p = 0; p < k; p += kDepth) {
      const std::int64_t width = std::min(kColumns, n - j), depth = std::min(kDepth, k - p);
      const PackedOperand right = from(b, j, p);
      table.pack_columns(columns, right.data, right.line_stride, right.k_stride, width, depth);
      for (std::int64_t i = 0; i < m; i += kRows) {
        const std::int64_t height = std::min(kRows, m - i);
        const PackedOperand left = from(a, i, p);
        table.pack_rows(scratch, left.data, left.line_stride, left.k_stride, height, depth);
        table.multiply(height, width, depth, scratch, columns, c + i * c_lead + j, c_lead, p > 0);
      }
    }
}

}  // namespace alpa::cpu
