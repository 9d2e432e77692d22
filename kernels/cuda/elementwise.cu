// kernels/cuda/elementwise.cu — the interpreter of elementwise programs. A thread computes packs
// of neighbouring elements. The result of the last instruction stays in registers; values needed
// later are in the thread's part of shared memory. The first inputs of a pack are loaded together,
// before the first instruction.
#include "kernels/cuda/elementwise.h"

#include "kernels/cuda/device.h"

namespace alpa::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kSlotBytes = kThreads * 16;
constexpr int kEarlyInputs = 4;  ///< that are read before the first instruction

/// A pack of S: 16 bytes, so that neighbouring threads touch neighbouring words.
template <class S>
constexpr int kPack = 16 / static_cast<int>(sizeof(S));

template <class S>
using Pack = Real<S>[kPack<S>];

// ---- values kept
// ---------------------------------------------------------------------------------------------

template <class S>
__device__ void keep(unsigned char* slots, int slot, const Pack<S>& x) {
  uint4 word;
  memcpy(&word, x, 16);
  reinterpret_cast<uint4*>(slots + slot * kSlotBytes)[threadIdx.x] = word;
}

template <class S>
__device__ void fetch(Pack<S>& x, const ElementwiseLaunch& p, const unsigned char* slots,
                      ElementwiseOperand operand, const Pack<S>& previous) {
  if (operand.kind == OperandKind::slot) {
    const uint4 word =
        reinterpret_cast<const uint4*>(slots + operand.index * kSlotBytes)[threadIdx.x];
    memcpy(x, &word, 16);
    return;
  }
  const Real<S> same(operand.kind == OperandKind::constant ? p.constants[operand.index] : 0.0);
#pragma unroll
  for (int i = 0; i < kPack<S>; ++i)
    x[i] = operand.kind == OperandKind::previous ? previous[i] : same;
}

// ---- inputs read when an instruction needs them
// ---------------------------------------------------------------------------------------------

/// First element of a `rows` input in row r.
__device__ std::int64_t row_start(const ElementwiseLaunch& p, const ElementwiseSource& in,
                                  std::int64_t r) {
  std::int64_t at = 0;
  for (int d = p.outer_dims - 1; d > 0; --d) {
    const Division part = divide(r, p.outer[d]);
    at += part.remainder * in.stride[d];
    r = part.quotient;
  }
  return at + r * in.stride[0];
}

/// Elements [begin, begin + n) of a `rows` input.
template <class T, class S>
__device__ void load_rows(S (&out)[kPack<S>], const ElementwiseLaunch& p,
                          const ElementwiseSource& in, std::int64_t begin, std::int64_t n) {
  const T* const data = static_cast<const T*>(in.data);
  const Division first = divide(begin, p.row);
  const std::int64_t start = row_start(p, in, first.quotient);
  if (first.remainder + n <= p.row) {  // within a row
    const T* const at = data + start + first.remainder * in.inner_stride;
    if (in.inner_stride == 0) {
      const S same = Element<T>::template widen<S>(*at);
#pragma unroll
      for (int i = 0; i < kPack<S>; ++i) out[i] = same;
    } else if (in.packed && p.aligned && n == kPack<S>) {
      load_pack(out, at);
    } else {
      load_some(out, at, n);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kPack<S>; ++i) {
    if (i >= n) continue;
    const Division at = divide(begin + i, p.row);
    const std::int64_t element = row_start(p, in, at.quotient) + at.remainder * in.inner_stride;
    out[i] = Element<T>::template widen<S>(data[element]);
  }
}

template <class T, class S>
__device__ void load_as(S (&out)[kPack<S>], const ElementwiseLaunch& p, const ElementwiseSource& in,
                        std::int64_t begin, std::int64_t n) {
  const T* const data = static_cast<const T*>(in.data);
  if (in.kind == ElementwiseSource::rows) return load_rows<T>(out, p, in, begin, n);
  if (in.kind == ElementwiseSource::scalar) {
    const S same = Element<T>::template widen<S>(*data);
#pragma unroll
    for (int i = 0; i < kPack<S>; ++i) out[i] = same;
    return;
  }
  if (p.aligned && n == kPack<S>)
    load_pack(out, data + begin);
  else
    load_some(out, data + begin, n);
}

template <class S>
__device__ void load(Pack<S>& x, const ElementwiseLaunch& p, const ElementwiseSource& in,
                     std::int64_t begin, std::int64_t n) {
  S values[kPack<S>] = {};
  with_stored<S>(in.dtype, [&](auto t) { load_as<decltype(t)>(values, p, in, begin, n); });
#pragma unroll
  for (int i = 0; i < kPack<S>; ++i) x[i].v = values[i];
}

// ---- inputs read early: packs as they are stored
// ---------------------------------------------------------------------------------------------

/// Whether input i is among them.
__device__ inline bool is_early(const ElementwiseLaunch& p, int i) {
  return i < kEarlyInputs && i < p.num_inputs && p.inputs[i].kind == ElementwiseSource::flat;
}

template <class U, int n>
__device__ void read_units(uint4& word, const void* data, std::int64_t begin) {
  U units[n];
  load_words(units, static_cast<const U*>(data) + begin);
  memcpy(&word, units, sizeof units);
}

template <class S>
__device__ void read_early(uint4& word, const ElementwiseSource& in, std::int64_t begin) {
  switch (in.dtype) {
    case DType::f64:
      if constexpr (sizeof(S) == 8) read_units<std::uint64_t, kPack<S>>(word, in.data, begin);
      return;
    case DType::f32:
    case DType::i32: return read_units<std::uint32_t, kPack<S>>(word, in.data, begin);
    case DType::bf16:
    case DType::f16: return read_units<std::uint16_t, kPack<S>>(word, in.data, begin);
    case DType::u8: return read_units<std::uint8_t, kPack<S>>(word, in.data, begin);
  }
}

template <class S>
__device__ void convert(Pack<S>& x, const uint4 (&words)[kEarlyInputs], int i, DType dtype) {
  uint4 word = words[0];
#pragma unroll
  for (int k = 1; k < kEarlyInputs; ++k)
    if (i == k) word = words[k];
  with_stored<S>(dtype, [&](auto t) {
    decltype(t) raw[kPack<S>];
    memcpy(raw, &word, sizeof raw);
#pragma unroll
    for (int k = 0; k < kPack<S>; ++k) x[k].v = Element<decltype(t)>::template widen<S>(raw[k]);
  });
}

// ---- outputs
// ---------------------------------------------------------------------------------------------

template <class S>
__device__ void store(const Pack<S>& x, const ElementwiseLaunch& p, const ElementwiseTarget& out,
                      std::int64_t begin, std::int64_t n) {
  S values[kPack<S>];
#pragma unroll
  for (int i = 0; i < kPack<S>; ++i) values[i] = x[i].v;
  const bool packed = p.aligned && n == kPack<S>;
  with_stored<S>(out.dtype, [&](auto t) {
    auto* const at = static_cast<decltype(t)*>(out.data) + begin;
    if (packed)
      store_pack(at, values);
    else
      store_some(at, values, n);
  });
}

// ---- formulas
// ---------------------------------------------------------------------------------------------

/// result = formula number `code`, in [low, high): found by bisection, so that every
/// formula is compiled in once.
template <int low, int high, class S>
__device__ __forceinline__ void compute(int code, Pack<S>& result, const Pack<S>& a,
                                        const Pack<S>& b, const Pack<S>& c) {
  if constexpr (high - low == 1) {
#pragma unroll
    for (int i = 0; i < kPack<S>; ++i)
      result[i] = elementwise::apply<static_cast<ElementwiseOp>(low)>(a[i], b[i], c[i]);
  } else {
    constexpr int middle = (low + high) / 2;
    if (code < middle)
      compute<low, middle, S>(code, result, a, b, c);
    else
      compute<middle, high, S>(code, result, a, b, c);
  }
}

template <class S>
__device__ void run_pack(const ElementwiseLaunch& p, unsigned char* slots, std::int64_t begin,
                         std::int64_t n) {
  const bool whole = p.aligned && n == kPack<S>;
  uint4 early[kEarlyInputs] = {};
#pragma unroll
  for (int i = 0; i < kEarlyInputs; ++i)
    if (whole && is_early(p, i)) read_early<S>(early[i], p.inputs[i], begin);
  Pack<S> result = {};
  for (int i = 0; i < p.num_instructions; ++i) {
    const Instruction& step = p.instructions[i];
    if (step.op == kLoadCode && whole && is_early(p, step.a.index)) {
      convert<S>(result, early, step.a.index, p.inputs[step.a.index].dtype);
    } else if (step.op == kLoadCode) {
      load<S>(result, p, p.inputs[step.a.index], begin, n);
    } else {
      Pack<S> a, b, c;
      fetch<S>(a, p, slots, step.a, result);
      fetch<S>(b, p, slots, step.b, result);
      fetch<S>(c, p, slots, step.c, result);
      compute<0, kNumElementwiseOps, S>(step.op, result, a, b, c);
    }
    if (step.slot >= 0) keep<S>(slots, step.slot, result);
    if (step.output >= 0) store<S>(result, p, p.outputs[step.output], begin, n);
  }
}

template <class S>
__global__ void __launch_bounds__(kThreads) interpret(const __grid_constant__ ElementwiseLaunch p) {
  unsigned char* const slots = dynamic_shared();
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads * kPack<S>;
  std::int64_t begin = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kPack<S>;
  for (; begin < p.elements; begin += stride) {
    const std::int64_t left = p.elements - begin;
    run_pack<S>(p, slots, begin, left < kPack<S> ? left : kPack<S>);
  }
}

template <class S>
Status run(const ElementwiseLaunch& p, Stream stream) {
  const std::size_t shared = static_cast<std::size_t>(p.num_slots) * kSlotBytes;
  if (shared > 48 * 1024) {
    const Status status =
        cudaFuncSetAttribute(reinterpret_cast<const void*>(&interpret<S>),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
    if (status != cudaSuccess) return status;
  }
  return launch(interpret<S>, blocks_for(p.elements, kThreads * kPack<S>), kThreads, shared, stream,
                p);
}

}  // namespace

Status run_elementwise(const ElementwiseLaunch& program, const void* const* inputs,
                       void* const* outputs, Stream stream) {
  ElementwiseLaunch p = program;
  p.aligned = true;
  for (int i = 0; i < p.num_inputs; ++i) {
    p.inputs[i].data = inputs[i];
    p.aligned =
        p.aligned && (p.inputs[i].kind == ElementwiseSource::scalar || aligned16(inputs[i]));
  }
  for (int o = 0; o < p.num_outputs; ++o) {
    p.outputs[o].data = outputs[o];
    p.aligned = p.aligned && aligned16(outputs[o]);
  }
  return p.wide ? run<double>(p, stream) : run<float>(p, stream);
}

}  // namespace alpa::cuda
