// kernels/cpu/elementwise_loops.isa.cc — inner loops of elementwise formulas, per instruction set
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"
#include "kernels/elementwise.h"

namespace alpa::cpu::ALPA_ISA {
namespace {

// ---- formulas
// ------------------------------------------------------------------------------------------------

template <class V>
using Operand = StepOperand<typename V::Scalar>;

template <class V>
ALPA_INLINE V load_at(const Operand<V>& operand, std::int64_t i) {
  return V::load(operand.data + operand.step * i);
}

/// out[i] = formula(a[i]); `out` may be an operand, here and below.
template <class V, ElementwiseOp op, class T = typename V::Scalar>
void step1(T* out, const Operand<V>* a, const Operand<V>*, const Operand<V>*, std::int64_t n) {
  const Operand<V> x = *a;
#pragma GCC unroll 4
  for (std::int64_t i = 0; i < n; i += V::lanes) {
    const V first = load_at<V>(x, i);
    elementwise::apply<op>(first, first, first).store(out + i);
  }
}

/// out[i] = formula(a[i], b[i]), with loops of their own for an equal number on
/// either side: one read less.
template <class V, ElementwiseOp op, class T = typename V::Scalar>
void step2(T* out, const Operand<V>* a, const Operand<V>* b, const Operand<V>*, std::int64_t n) {
  const T *pa = a->data, *pb = b->data;
  if (b->step == 0) {
    const V y = V::load(pb);
    if (a->step == 0) {
      const V z = elementwise::apply<op>(V::load(pa), y, y);
      for (std::int64_t i = 0; i < n; i += V::lanes) z.store(out + i);
    } else {
#pragma GCC unroll 4
      for (std::int64_t i = 0; i < n; i += V::lanes)
        elementwise::apply<op>(V::load(pa + i), y, y).store(out + i);
    }
  } else if (a->step == 0) {
    const V x = V::load(pa);
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < n; i += V::lanes)
      elementwise::apply<op>(x, V::load(pb + i), x).store(out + i);
  } else {
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < n; i += V::lanes)
      elementwise::apply<op>(V::load(pa + i), V::load(pb + i), V::load(pa + i)).store(out + i);
  }
}

/// out[i] = formula(a[i], b[i], c[i])
template <class V, ElementwiseOp op, class T = typename V::Scalar>
void step3(T* out, const Operand<V>* a, const Operand<V>* b, const Operand<V>* c, std::int64_t n) {
  const Operand<V> x = *a, y = *b, z = *c;
#pragma GCC unroll 4
  for (std::int64_t i = 0; i < n; i += V::lanes)
    elementwise::apply<op>(load_at<V>(x, i), load_at<V>(y, i), load_at<V>(z, i)).store(out + i);
}

template <class V, int code>
constexpr StepFunction<typename V::Scalar> step() {
  constexpr ElementwiseOp op = static_cast<ElementwiseOp>(code);
  if constexpr (info(op).arity == 1)
    return step1<V, op>;
  else if constexpr (info(op).arity == 2)
    return step2<V, op>;
  else
    return step3<V, op>;
}

template <class V, int... codes>
struct Steps {
  static constexpr StepFunction<typename V::Scalar> functions[] = {step<V, codes>()...};
};
template <class V, int n, int... codes>
struct StepsBelow : StepsBelow<V, n - 1, n - 1, codes...> {};
template <class V, int... codes>
struct StepsBelow<V, 0, codes...> : Steps<V, codes...> {};
template <class V>
constexpr auto* kSteps = StepsBelow<V, kNumElementwiseOps>::functions;

// ---- conversions
// ---------------------------------------------------------------------------------------------

template <class S>
inline constexpr bool is_half = sizeof(S) == 2;

/// V::lanes elements of type S as V.
template <class V, class S>
ALPA_INLINE V load_vector(const std::byte* in) {
  if constexpr (__is_same(S, float) && __is_same(V, F64)) {
    return load_wide(reinterpret_cast<const float*>(in));
  } else if constexpr (__is_same(S, std::uint8_t) && __is_same(V, F32)) {
    return F32(__builtin_convertvector(load_bytes(in), Float32s));
  } else if constexpr (__is_same(S, std::uint8_t)) {
    return to_f64(load_few_bytes(in));
  } else if constexpr (__is_same(S, std::int32_t)) {
    HalfInt32s raw;
    __builtin_memcpy(&raw, in, sizeof raw);
    return to_f64(raw);
  } else if constexpr (!is_half<S>) {
    return V::load(reinterpret_cast<const S*>(in));
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
  for (; i + V::lanes <= n; i += V::lanes, in += V::lanes * sizeof(S))
    load_vector<V, S>(in).store(out + i);
  if (i == n) return;
  std::byte padded[kVectorBytes] = {};
  __builtin_memcpy(padded, in, (n - i) * sizeof(S));
  typename V::Scalar last[V::lanes];
  load_vector<V, S>(padded).store(last);
  __builtin_memcpy(out + i, last, (n - i) * sizeof last[0]);
}

template <class S>
ALPA_INLINE void write_half(std::byte* out, F32 x) {
  if constexpr (__is_same(S, Bf16Bits))
    store_words(out, bf16_bits(x));
  else
    store_words(out, f16_bits(x));
}

template <class S, class V>
ALPA_INLINE void store_vector(std::byte* out, V x) {
  if constexpr (__is_same(S, std::int32_t)) {
    const HalfInt32s raw = to_i32(round_to_i32(x));
    __builtin_memcpy(out, &raw, sizeof raw);
  } else if constexpr (__is_same(S, std::uint8_t) && __is_same(V, F32)) {
    store_bytes(out, __builtin_convertvector(round_to_u8(x).v, Int32s));
  } else if constexpr (__is_same(S, std::uint8_t)) {
    store_few_bytes(out, to_i32(round_to_u8(x)));
  } else if constexpr (__is_same(S, float) && __is_same(V, F64)) {
    store_narrow(reinterpret_cast<float*>(out), x);
  } else if constexpr (!is_half<S>) {
    x.store(reinterpret_cast<S*>(out));
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

/// In the order of DType: f32, bf16, f16, f64, i32, u8. With f64 or i32 tensors
/// everything is computed in double.
constexpr LoadFunction<float> kLoads32[] = {
    load<F32, float>, load<F32, Bf16Bits>,    load<F32, F16Bits>, nullptr,
    nullptr,          load<F32, std::uint8_t>};
constexpr StoreFunction<float> kStores32[] = {
    store<float, F32>, store<Bf16Bits, F32>,    store<F16Bits, F32>, nullptr,
    nullptr,           store<std::uint8_t, F32>};
constexpr LoadFunction<double> kLoads64[] = {load<F64, float>,        load<F64, Bf16Bits>,
                                             load<F64, F16Bits>,      load<F64, double>,
                                             load<F64, std::int32_t>, load<F64, std::uint8_t>};
constexpr StoreFunction<double> kStores64[] = {store<float, F64>,        store<Bf16Bits, F64>,
                                               store<F16Bits, F64>,      store<double, F64>,
                                               store<std::int32_t, F64>, store<std::uint8_t, F64>};

}  // namespace

const ElementwiseTable& elementwise_table() {
  static constexpr ElementwiseTable table{{F32::lanes, kSteps<F32>, kLoads32, kStores32},
                                          {F64::lanes, kSteps<F64>, kLoads64, kStores64}};
  return table;
}

}  // namespace alpa::cpu::ALPA_ISA
