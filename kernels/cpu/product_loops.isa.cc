// kernels/cpu/product_loops.isa.cc — the tile of products of one order, per instruction set
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

namespace alpa::cpu::ALPA_ISA {
namespace {

constexpr int kRows = static_cast<int>(kTileRows), kTileVectors = 2;

/// All sums stay in registers.
void add_tile(float* c, std::int64_t lead, const float* a, const float* b, std::int64_t k) {
  Float32s sums[kRows][kTileVectors];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kTileVectors; ++v) sums[r][v] = F32::load(c + r * lead + v * kLanes32).v;
  for (std::int64_t i = 0; i < k; ++i, a += kRows, b += kTileVectors * kLanes32) {
    const Float32s left = F32::load(b).v, right = F32::load(b + kLanes32).v;
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const Float32s factor = a[r] - Float32s{};
      sums[r][0] += factor * left;
      sums[r][1] += factor * right;
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kTileVectors; ++v) F32(sums[r][v]).store(c + r * lead + v * kLanes32);
}

}  // namespace

const ProductLoops& product_loops() {
  static constexpr ProductLoops loops{kTileVectors * kLanes32, add_tile};
  return loops;
}

}  // namespace alpa::cpu::ALPA_ISA
