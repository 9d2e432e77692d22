#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"
#include "kernels/elementwise.h"

namespace alpa::cpu::ALPA_ISA {
namespace {

// ---- formulas
// ------------------------------------------------------------------------------------------------

template <class V>
using Operand = StepOperand<typename V::Scalar>;

/// out[i] = formula(a[i], b[i], c[i]); `out` may be one of the operands.
template <class V, int code>
void step(typename V::Scalar* out, Operand<V> a, Operand<V> b, Operand<V> c, std::int64_t n) {
  constexpr ElementwiseOp op = static_cast<ElementwiseOp>(code);
  constexpr int arity = info(op).arity;
  const std::ptrdiff_t sa = a.step * V::lanes, sb = b.step * V::lanes, sc = c.step * V::lanes;
#pragma GCC unroll 4
  for (std::int64_t i = 0; i < n; i += V::lanes) {
    const V x = V::load(a.data);
    V y = x, z = x;
    a.data += sa;
    if constexpr (arity >= 2) y = V::load(b.data), b.data += sb;
    if constexpr (arity >= 3) z = V::load(c.data), c.data += sc;
    elementwise::apply<op>(x, y, z).store(out + i);
  }
}

template <class V, int... codes>
struct Steps {
  static constexpr StepFunction<typename V::Scalar> functions[] = {step<V, codes>...};
};
template <class V, int n, int... codes>
struct StepsBelow : StepsBelow<V, n - 1, n - 1, codes...> {};
template <class V, int... codes>
struct StepsBelow<V, 0, codes...> : Steps<V, codes...> {};
template <class V>
constexpr auto* kSteps = StepsBelow<V, kNumElementwiseOps>::functions;

// ---- conversions
// ---------------------------------------------------------------------------------------------

template <class S, int lanes>
struct Lanes {
  typedef S type __attribute__((vector_size(sizeof(S) * lanes)));
};

struct Bf16Bits {
  std::uint16_t bits;
};
struct F16Bits {
  std::uint16_t bits;
};
template <class S>
inline constexpr bool is_half = sizeof(S) == 2;

template <class V, class S>
ALPA_INLINE void read(typename Lanes<S, V::lanes>::type& raw, const std::byte* in) {
  __builtin_memcpy(&raw, in, sizeof raw);
}

template <class S>
ALPA_INLINE F32 widen_half(const std::byte* in) {
  Lanes<std::uint16_t, kLanes32>::type narrow;
  read<F32, std::uint16_t>(narrow, in);
  const Int32s raw = __builtin_convertvector(narrow, Int32s);
  if constexpr (__is_same(S, Bf16Bits))
    return from_bf16_bits(raw);
  else
    return from_f16_bits(raw);
}

/// V::lanes elements of type S as V.
template <class V, class S>
ALPA_INLINE V load_vector(const std::byte* in) {
  if constexpr (!is_half<S>) {
    typename Lanes<S, V::lanes>::type raw;
    read<V, S>(raw, in);
    return V(__builtin_convertvector(raw, typename V::Vector));
  } else if constexpr (__is_same(V, F32)) {
    return widen_half<S>(in);
  } else {
    std::byte padded[kBytes] = {};
    __builtin_memcpy(padded, in, V::lanes * sizeof(S));
    const F32 wide = widen_half<S>(padded);
    V out(0);
    for (int i = 0; i < V::lanes; ++i) out.v[i] = wide.v[i];
    return out;
  }
}

template <class V, class S>
void load(typename V::Scalar* out, const std::byte* in, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + V::lanes <= n; i += V::lanes, in += V::lanes * sizeof(S)) load_vector<V, S>(in).store(out + i);
  if (i == n) return;
  std::byte padded[kVectorBytes] = {};
  __builtin_memcpy(padded, in, (n - i) * sizeof(S));
  typename V::Scalar last[V::lanes];
  load_vector<V, S>(padded).store(last);
  __builtin_memcpy(out + i, last, (n - i) * sizeof last[0]);
}

template <class S, class V>
ALPA_INLINE void write(std::byte* out, V x) {
  const auto raw = __builtin_convertvector(x.v, typename Lanes<S, V::lanes>::type);
  __builtin_memcpy(out, &raw, sizeof raw);
}

template <class S>
ALPA_INLINE void write_half(std::byte* out, F32 x) {
  Int32s raw;
  if constexpr (__is_same(S, Bf16Bits))
    raw = bf16_bits(x);
  else
    raw = f16_bits(x);
  const auto narrow = __builtin_convertvector(raw, Lanes<std::uint16_t, kLanes32>::type);
  __builtin_memcpy(out, &narrow, sizeof narrow);
}

template <class S, class V>
ALPA_INLINE void store_vector(std::byte* out, V x) {
  if constexpr (__is_same(S, std::int32_t)) {
    write<S>(out, round_to_i32(x));
  } else if constexpr (__is_same(S, std::uint8_t)) {
    write<S>(out, round_to_u8(x));
  } else if constexpr (!is_half<S>) {
    write<S>(out, x);
  } else if constexpr (__is_same(V, F32)) {
    write_half<S>(out, x);
  } else {
    float wide[kLanes32] = {};
    for (int i = 0; i < V::lanes; ++i) wide[i] = static_cast<float>(x.v[i]);
    std::byte narrow[kBytes / 2];
    write_half<S>(narrow, F32::load(wide));
    __builtin_memcpy(out, narrow, V::lanes * sizeof(S));
  }
}

template <class S, class V>
void store(std::byte* out, const typename V::Scalar* in, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + V::lanes <= n; i += V::lanes, out += V::lanes * sizeof(S))
    store_vector<S>(out, V::load(in + i));
  if (i == n) return;
  typename V::Scalar last[V::lanes] = {};
  __builtin_memcpy(last, in + i, (n - i) * sizeof last[0]);
  std::byte padded[kVectorBytes];
  store_vector<S>(padded, V::load(last));
  __builtin_memcpy(out, padded, (n - i) * sizeof(S));
}

/// In the order of DType: f32, bf16, f16, f64, i32, u8. With f64 or i32 tensors everything is computed in
/// double.
constexpr LoadFunction<float> kLoads32[] = {
    load<F32, float>, load<F32, Bf16Bits>, load<F32, F16Bits>, nullptr, nullptr, load<F32, std::uint8_t>};
constexpr StoreFunction<float> kStores32[] = {
    store<float, F32>, store<Bf16Bits, F32>,    store<F16Bits, F32>, nullptr,
    nullptr,           store<std::uint8_t, F32>};
constexpr LoadFunction<double> kLoads64[] = {load<F64, float>,        load<F64, Bf16Bits>,
                                             load<F64, F16Bits>,      load<F64, double>,
                                             load<F64, std::int32_t>, load<F64, std::uint8_t>};
constexpr StoreFunction<double> kStores64[] = {store<float, F64>,        store<Bf16Bits, F64>,
                                               store<F16Bits, F64>,      store<double, F64>,
                                               store<std::int32_t, F64>, store<std::uint8_t, F64>};

/// Non-temporal copy.
void stream(std::byte* out, const std::byte* in, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += kBytes) {
#if defined(__AVX512F__)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(out + i), _mm512_loadu_si512(in + i));
#elif defined(__AVX2__)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(out + i),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i)));
#elif defined(__SSE2__)
    _mm_stream_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i)));
#else
    __builtin_memcpy(out + i, in + i, kBytes);
#endif
  }
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace

const ElementwiseTable& elementwise_table() {
  static constexpr ElementwiseTable table{{F32::lanes, kSteps<F32>, kLoads32, kStores32},
                                          {F64::lanes, kSteps<F64>, kLoads64, kStores64},
                                          stream};
  return table;
}

}  // namespace alpa::cpu::ALPA_ISA
