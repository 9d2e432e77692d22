// kernels/cpu/gemm_loops.isa.cc — panels and tiles of matrix products, per instruction set
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

namespace alpa::cpu::ALPA_ISA {
namespace {

/// A tile's sums and operands fill AVX2's 16 registers.
constexpr int kRows = 6, kColumns = 2 * kLanes32;
template <int... i>
struct Numbered {};
using Rows = Numbered<0, 1, 2, 3, 4, 5>;

/// A pack of indices, not a loop, so that the sums stay in registers.
template <int... r>
ALPA_INLINE void tile(Numbered<r...>, std::int64_t k, const float* a, const float* b, float* c,
                      std::int64_t c_lead, bool add) {
  Float32s left[] = {(static_cast<void>(r), Float32s{})...},
           right[] = {(static_cast<void>(r), Float32s{})...};
  for (std::int64_t p = 0; p < k; ++p, a += kRows, b += kColumns) {
    const Float32s b_left = F32::load(b).v, b_right = F32::load(b + kLanes32).v;
    ((left[r] += a[r] * b_left, right[r] += a[r] * b_right), ...);
  }
  const auto store = [&](const Float32s& sums, float* to) __attribute__((always_inline)) {
    (add ? F32::load(to) + F32(sums) : F32(sums)).store(to);
  };
  ((store(left[r], c + r * c_lead), store(right[r], c + r * c_lead + kLanes32)), ...);
}

/// The part of a tile at the edge of c.
void edge_tile(std::int64_t rows, std::int64_t columns, std::int64_t k, const float* a,
               const float* b, float* c, std::int64_t c_lead, bool add) {
  float sums[kRows * kColumns];
  tile(Rows(), k, a, b, sums, kColumns, false);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      float& element = c[i * c_lead + j];
      element = (add ? element : 0.0F) + sums[i * kColumns + j];
    }
}

void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
              float* c, std::int64_t c_lead, bool add) {
  for (std::int64_t j = 0; j < n; j += kColumns)
    for (std::int64_t i = 0; i < m; i += kRows) {
      float* const corner = c + i * c_lead + j;
      if (i + kRows <= m && j + kColumns <= n)
        tile(Rows(), k, a + i * k, b + j * k, corner, c_lead, add);
      else
        edge_tile(i + kRows <= m ? kRows : m - i, j + kColumns <= n ? kColumns : n - j, k,
                  a + i * k, b + j * k, corner, c_lead, add);
    }
}

typedef float Eight __attribute__((vector_size(32)));
ALPA_INLINE void load(Eight& to, const float* from) { __builtin_memcpy(&to, from, sizeof to); }
ALPA_INLINE void store(float* to, const Eight& from) { __builtin_memcpy(to, &from, sizeof from); }

ALPA_INLINE void transpose(Eight* x) {
  Eight pairs[8], fours[8];
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    pairs[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i += 4)
    for (int h = 0; h < 2; ++h) {
      const Eight first = pairs[i + h], second = pairs[i + h + 2];
      fours[i + 2 * h] = __builtin_shufflevector(first, second, 0, 1, 8, 9, 4, 5, 12, 13);
      fours[i + 2 * h + 1] = __builtin_shufflevector(first, second, 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int i = 0; i < 4; ++i) {
    x[i] = __builtin_shufflevector(fours[i], fours[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    x[i + 4] = __builtin_shufflevector(fours[i], fours[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

/// One panel of `width` lines; stores up to 7 floats beyond it, which the next panel overwrites.
template <int width>
void pack_panel(float* out, const float* from, std::int64_t line_stride, std::int64_t k_stride,
                std::int64_t lines, std::int64_t k) {
  std::int64_t p = 0;
  constexpr int kRounded = (width + 7) / 8 * 8;
  if (line_stride == 1 && lines >= kRounded) {
    Eight x;
    for (; p < k; ++p)
      for (int line = 0; line < width; line += 8)
        load(x, from + p * k_stride + line), store(out + p * width + line, x);
  } else if (k_stride == 1) {
    for (; p + 8 <= k; p += 8)
      for (int line = 0; line < width; line += 8) {
        Eight x[8];
        for (int i = 0; i < 8; ++i)
          if (x[i] = Eight{}; line + i < width && line + i < lines)
            load(x[i], from + (line + i) * line_stride + p);
        transpose(x);
        for (int i = 0; i < 8; ++i) store(out + (p + i) * width + line, x[i]);
      }
  }
  for (; p < k; ++p)
    for (int line = 0; line < width; ++line)
      out[p * width + line] = line < lines ? from[line * line_stride + p * k_stride] : 0.0F;
}

template <int width>
void pack(float* out, const float* from, std::int64_t line_stride, std::int64_t k_stride,
          std::int64_t lines, std::int64_t k) {
  for (std::int64_t line = 0; line < lines; line += width, out += width * k)
    pack_panel<width>(out, from + line * line_stride, line_stride, k_stride, lines - line, k);
}

}  // namespace

const GemmTable& gemm_table() {
  static constexpr GemmTable table{kRows, kColumns, pack<kRows>, pack<kColumns>, multiply};
  return table;
}

}  // namespace alpa::cpu::ALPA_ISA
