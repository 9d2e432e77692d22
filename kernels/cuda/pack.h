#pragma once
/// Reads and writes several neighbouring elements in accesses of up to 16 bytes. Device code only.
#include "kernels/cuda/real.h"

namespace alpa::cuda {

template <int bytes>
struct Word;
template <>
struct Word<16> {
  using type = uint4;
};
template <>
struct Word<8> {
  using type = uint2;
};
template <>
struct Word<4> {
  using type = unsigned int;
};
template <>
struct Word<2> {
  using type = unsigned short;
};
template <>
struct Word<1> {
  using type = unsigned char;
};

/// *p = x in one access. (An assignment does not say so: nvcc takes a word that was put together
/// from elements apart again, and writes those.)
template <class W>
__device__ inline void store_word(W* p, const W& x) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(W) == 16) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p)),
                 "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
                 : "memory");
    return;
  }
  if constexpr (sizeof(W) == 8) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(p)), "r"(x.x),
                 "r"(x.y)
                 : "memory");
    return;
  }
#endif
  *p = x;
}

/// out[i] = p[i] for i < n; p is aligned to 16 bytes, or to n elements if that is less.
template <class T, int n>
__device__ inline void load_words(T (&out)[n], const T* p) {
  constexpr int bytes = static_cast<int>(sizeof(T)) * n, chunk = bytes < 16 ? bytes : 16,
                per = chunk / static_cast<int>(sizeof(T));
  using W = typename Word<chunk>::type;
#pragma unroll
  for (int c = 0; c < bytes / chunk; ++c) {
    const W word = reinterpret_cast<const W*>(p)[c];
    memcpy(out + c * per, &word, chunk);
  }
}

/// p[i] = in[i] for i < n, aligned as for `load_words`; device memory.
template <class T, int n>
__device__ inline void store_words(T* p, const T (&in)[n]) {
  constexpr int bytes = static_cast<int>(sizeof(T)) * n, chunk = bytes < 16 ? bytes : 16,
                per = chunk / static_cast<int>(sizeof(T));
  using W = typename Word<chunk>::type;
#pragma unroll
  for (int c = 0; c < bytes / chunk; ++c) {
    W word;
    memcpy(&word, in + c * per, chunk);
    store_word(reinterpret_cast<W*>(p) + c, word);
  }
}

/// `load_words` and `store_words` of elements stored as T and computed as S.
template <class T, class S, int n>
__device__ inline void load_pack(S (&out)[n], const T* p) {
  T raw[n];
  load_words(raw, p);
#pragma unroll
  for (int i = 0; i < n; ++i) out[i] = Element<T>::template widen<S>(raw[i]);
}
template <class T, class S, int n>
__device__ inline void store_pack(T* p, const S (&in)[n]) {
  T raw[n];
#pragma unroll
  for (int i = 0; i < n; ++i) raw[i] = Element<T>::template narrow<S>(in[i]);
  store_words(p, raw);
}

/// The first `count` of n elements, one by one from any address; the others become 0.
template <class T, class S, int n>
__device__ inline void load_some(S (&out)[n], const T* p, std::int64_t count) {
#pragma unroll
  for (int i = 0; i < n; ++i) out[i] = i < count ? Element<T>::template widen<S>(p[i]) : S(0);
}
template <class T, class S, int n>
__device__ inline void store_some(T* p, const S (&in)[n], std::int64_t count) {
#pragma unroll
  for (int i = 0; i < n; ++i)
    if (i < count) p[i] = Element<T>::template narrow<S>(in[i]);
}

}  // namespace alpa::cuda
