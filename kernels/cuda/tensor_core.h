#pragma once
/// Products of a warp on tensor cores: 16 × 8 results of 16-bit operands, summed in f32 (PTX ISA,
/// mma.sync m16n8k16). A lane has a part of every operand, a fragment. With group = lane / 4 and
/// pair = 2 · (lane % 4): of the left operand rows group and group + 8, columns pair, pair + 1,
/// pair + 8 and pair + 9; of the right one the same rows of its column `group`; of the result
/// columns pair and pair + 1 of rows group and group + 8. All lanes of the warp call together.
/// Device code only; where it is not compiled for a card, lanes exchange fragments through memory.
#include "kernels/cuda/device.h"

namespace alpa::cuda {

struct LeftFragment {
  unsigned int pairs[4];  ///< (row, column): (group, pair), (+8, pair), (group, +8), (+8, +8)
};
struct RightFragment {
  unsigned int pairs[2];  ///< rows pair and pair + 8
};

/// Two numbers as neighbours in T, the first in the lower half.
template <class T>
__device__ inline unsigned int pair_of(float first, float second) {
#if defined(__CUDA_ARCH__)
  unsigned int pair;
  if constexpr (std::is_same_v<T, Bf16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
#else
  const T both[2] = {Element<T>::template narrow<float>(first),
                     Element<T>::template narrow<float>(second)};
  unsigned int pair;
  memcpy(&pair, both, sizeof pair);
  return pair;
#endif
}

#if !defined(__CUDA_ARCH__)
/// What the lanes of each warp of a block hand to each other.
struct WarpExchange {
  unsigned int pairs[32][6];
  const unsigned short* rows[32];
};
__device__ inline WarpExchange& warp_exchange() {
  __shared__ WarpExchange of_warps[32];
  return of_warps[threadIdx.x / 32];
}
template <class T>
__device__ inline float half_of(unsigned int pair, int which) {
  T both[2];
  memcpy(both, &pair, sizeof pair);
  return Element<T>::template widen<float>(both[which]);
}
#endif

/// Four 8 × 8 matrices of 16-bit elements in shared memory (ldmatrix): lane 8 i + r has the address
/// of row r of matrix i, a multiple of 16 bytes. Pair i of a lane is from matrix i: row group,
/// columns pair and pair + 1; `transposed`: column group, rows pair and pair + 1.
template <bool transposed>
__device__ inline void load_matrices(unsigned int (&pairs)[4], const unsigned short* row) {
#if defined(__CUDA_ARCH__)
  const auto address = static_cast<unsigned int>(__cvta_generic_to_shared(row));
  if constexpr (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
                 : "r"(address)
                 : "memory");
#else
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) __trap();  // as a card does
  WarpExchange& warp = warp_exchange();
  const int lane = static_cast<int>(threadIdx.x % 32), group = lane / 4, pair = lane % 4 * 2;
  warp.rows[lane] = row;
  __syncwarp();
  for (int i = 0; i < 4; ++i) {
    const unsigned short* const* const rows = warp.rows + i * 8;
    const unsigned int low = transposed ? rows[pair][group] : rows[group][pair],
                       high = transposed ? rows[pair + 1][group] : rows[group][pair + 1];
    pairs[i] = low | high << 16;
  }
  __syncwarp();
#endif
}

/// c += a · b
template <class T>
__device__ inline void multiply_add(float (&c)[4], const LeftFragment& a, const RightFragment& b) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, Bf16>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.pairs[0]), "r"(a.pairs[1]), "r"(a.pairs[2]), "r"(a.pairs[3]), "r"(b.pairs[0]),
          "r"(b.pairs[1]));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.pairs[0]), "r"(a.pairs[1]), "r"(a.pairs[2]), "r"(a.pairs[3]), "r"(b.pairs[0]),
          "r"(b.pairs[1]));
#else
  WarpExchange& warp = warp_exchange();
  const int lane = static_cast<int>(threadIdx.x % 32), group = lane / 4, pair = lane % 4 * 2;
  for (int i = 0; i < 4; ++i) warp.pairs[lane][i] = a.pairs[i];
  for (int i = 0; i < 2; ++i) warp.pairs[lane][4 + i] = b.pairs[i];
  __syncwarp();
  for (int i = 0; i < 4; ++i) {
    const int row = i / 2, column = pair + i % 2;  // row: group, or group + 8
    for (int k = 0; k < 16; ++k) {
      const int of = k % 8 / 2, later = k / 8;
      c[i] += half_of<T>(warp.pairs[group * 4 + of][row + 2 * later], k % 2) *
              half_of<T>(warp.pairs[column * 4 + of][4 + later], k % 2);
    }
  }
  __syncwarp();
#endif
}

}  // namespace alpa::cuda
