#pragma once
/// What CUDA's compiler knows of itself in device code. No other header is needed.
#include "vector_types.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
/// Twice so many instructions that do nothing, and 64 of them, stand before the kernel, where
/// `alpa_emulation::bound_of` counts them. The list of such places, which the compiler makes, is
/// left out by the linker (kernels.ld). GCC 12 takes no other expression than sizeof in the
/// attribute of a template.
#define __launch_bounds__(threads, ...)                                     \
  __attribute__((patchable_function_entry(sizeof(char[2 * (threads) + 64]), \
                                          sizeof(char[2 * (threads) + 64]))))
/// Static in a function; one block runs on a host thread at a time.
#define __shared__ thread_local

/// Of the emulated thread that runs on this host thread.
extern __thread uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace alpa_emulation {

/// The threads that a block of `kernel` may have. Up to one of the instructions before it may be
/// there for alignment.
inline unsigned int bound_of([[maybe_unused]] const void* kernel) {
  constexpr unsigned int kMost = 1024, kMore = 64;
#if defined(__x86_64__)
  const auto* code = static_cast<const unsigned char*>(kernel);
  asm("" : "+r"(code));  // or the compiler knows that nothing is ahead of a function
  unsigned int count = 0;
  while (count < 2 * kMost + kMore && *(code - 1 - count) == 0x90) ++count;
  if (count >= kMore) return (count - kMore) / 2;
#endif
  return kMost;
}

/// Bytes of a kernel's parameters, laid out as CUDA does, of which there may be 32764: nvcc and
/// NVRTC refuse more, for cards since sm_70.
template <class... Parameters>
constexpr unsigned long parameter_bytes() {
  unsigned long end = 0;
  ((end = (end + alignof(Parameters) - 1) / alignof(Parameters) * alignof(Parameters) +
          sizeof(Parameters)),
   ...);
  return end;
}
template <class... Parameters>
constexpr void check_parameters() {
  static_assert(parameter_bytes<Parameters...>() <= 32764,
                "Formal parameter space overflowed (max 32764 bytes allowed)");
}

}  // namespace alpa_emulation

extern "C" {
void __syncthreads();
void __syncwarp(unsigned int mask = 0xffffffffu);
/// Ends the launch with an error.
void __trap();
/// Hands `bytes` (up to 8) of this lane to the others of its warp and fetches lane `from`'s.
void alpa_emulation_shuffle(unsigned int mask, void* value, unsigned int bytes, unsigned int from);
}

template <class T>
inline T __shfl_sync(unsigned int mask, T value, int lane, int width = 32) {
  const unsigned int own = threadIdx.x % 32, first = own / width * width;
  alpa_emulation_shuffle(mask, &value, sizeof value, first + lane % width);
  return value;
}
template <class T>
inline T __shfl_xor_sync(unsigned int mask, T value, int bits, int width = 32) {
  const unsigned int own = threadIdx.x % 32, from = own ^ bits;
  alpa_emulation_shuffle(mask, &value, sizeof value, from / width == own / width ? from : own);
  return value;
}
template <class T>
inline T __shfl_down_sync(unsigned int mask, T value, unsigned int by, int width = 32) {
  const unsigned int own = threadIdx.x % 32;
  alpa_emulation_shuffle(mask, &value, sizeof value,
                         own % width + by < unsigned(width) ? own + by : own);
  return value;
}
template <class T>
inline T __shfl_up_sync(unsigned int mask, T value, unsigned int by, int width = 32) {
  const unsigned int own = threadIdx.x % 32;
  alpa_emulation_shuffle(mask, &value, sizeof value, own % width >= by ? own - by : own);
  return value;
}

/// Each returns what was there before.
inline int atomicMin(int* at, int value) {
  int old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (value < old &&
         !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
inline int atomicMax(int* at, int value) {
  int old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (value > old &&
         !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}

// One rounding each: the host's compiler must not fuse across a call.
extern "C" {
double __dadd_rn(double a, double b);
double __dsub_rn(double a, double b);
double __dmul_rn(double a, double b);
double __ddiv_rn(double a, double b);
double __dsqrt_rn(double a);
float __int_as_float(int bits);
}
