// kernels/cuda/update.cu — Adam, SGD and sums. Tensors of equal element types share a launch, whose
// kernel is compiled for those types. A thread issues all loads of its packs, 16 bytes each, before
// it converts the first one.
#include "kernels/cuda/update.h"

#include "kernels/cuda/approximate.h"
#include "kernels/cuda/tensor_table.h"

namespace alpa::cuda {
namespace {

constexpr int kThreads = 256;

/// The type of the formulas in float: quotients and roots use the card's approximations.
struct Quick {
  float v;

  Quick() = default;
  __device__ explicit Quick(float x) : v(x) {}
  __device__ friend Quick operator+(Quick a, Quick b) { return Quick(a.v + b.v); }
  __device__ friend Quick operator-(Quick a, Quick b) { return Quick(a.v - b.v); }
  __device__ friend Quick operator*(Quick a, Quick b) { return Quick(a.v * b.v); }
  /// b is a root plus epsilon: below 2^126, and 0 or above 2^-126.
  __device__ friend Quick operator/(Quick a, Quick b) {
    return Quick(a.v * approximate_reciprocal(b.v));
  }
};
__device__ inline Quick sqrt(Quick x) { return Quick(approximate_sqrt(x.v)); }

// ---- rules: what of an optimizer the kernels need
// ---------------------------------------------------------------------------------------------

__device__ double load_scalar(DeviceScalar scalar) {
  double value[1];
  load_typed(value, scalar.data, scalar.dtype, 0, 1);
  return value[0];
}

/// base^exponent; of whole exponents by squaring, which takes a tenth of the general function's
/// time.
__device__ double power(double base, double exponent) {
  if (!(exponent >= 0 && exponent < 1e9) || exponent != static_cast<int>(exponent))
    return ::pow(base, exponent);
  double result = 1;
  for (int left = static_cast<int>(exponent); left > 0; left /= 2, base *= base)
    if (left % 2 == 1) result *= base;
  return result;
}

struct Adam {
  static constexpr int kStates = 3;
  template <class S>
  using Factors = elementwise::AdamFactors<S>;
  AdamSettings settings;
  DeviceScalar learning_rate, step;

  template <class S>
  __device__ Factors<S> factors() const {
    const double count = load_scalar(step);
    return elementwise::adam_factors<S>(elementwise::adam_scalars(
        settings.beta1, settings.beta2, settings.epsilon, settings.weight_decay, settings.decoupled,
        load_scalar(learning_rate), power(settings.beta1, count), power(settings.beta2, count)));
  }
  template <class S, class N>
  __device__ static void apply(N (&state)[kStates], N g, const Factors<S>& factors) {
    elementwise::adam<S>(state[0], state[1], state[2], g, factors);
  }
};

struct Sgd {
  static constexpr int kStates = 2;
  template <class S>
  using Factors = elementwise::SgdFactors<S>;
  SgdSettings settings;
  DeviceScalar learning_rate;

  template <class S>
  __device__ Factors<S> factors() const {
    return elementwise::sgd_factors<S>(
        {load_scalar(learning_rate), settings.momentum, settings.weight_decay, settings.nesterov});
  }
  template <class S, class N>
  __device__ static void apply(N (&state)[kStates], N g, const Factors<S>& factors) {
    elementwise::sgd<S>(state[0], state[1], g, factors);
  }
};

/// The gradient is added.
struct Add {
  static constexpr int kStates = 1;
  template <class S>
  struct Factors {};

  template <class S>
  __device__ Factors<S> factors() const {
    return {};
  }
  template <class S, class N>
  __device__ static void apply(N (&state)[kStates], N g, const Factors<S>& /*factors*/) {
    state[0] = state[0] + g;
  }
};

__device__ inline const void* old_state(const UpdateTensor& t, int s) {
  return s == 0 ? t.w : s == 1 ? t.first : t.second;
}
__device__ inline void* new_state(const UpdateTensor& t, int s) {
  return s == 0 ? t.new_w : s == 1 ? t.new_first : t.new_second;
}

// ---- tensors whose states are all T and whose gradients are G, at multiples of 16 bytes
// ---------------------------------------------------------------------------------------------

template <class T, class G, class Rule>
struct Packs {
  using Factors = typename Rule::template Factors<float>;
  /// Elements of a pack: no access exceeds 16 bytes.
  static constexpr int kPack = 16 / static_cast<int>(sizeof(T) > sizeof(G) ? sizeof(T) : sizeof(G));
  /// Packs of a thread whose reads are under way together.
  static constexpr int kAtOnce = 2;
  static constexpr int kStep = kThreads * kPack;

  struct Raw {
    T state[Rule::kStates][kPack];
    G gradient[kPack];
  };

  template <int n>
  __device__ static void update(const UpdateTensor& t, std::int64_t at,
                                const T (&states)[Rule::kStates][n], const G (&gradient)[n],
                                const Factors& factors) {
    float results[Rule::kStates][n];
#pragma unroll
    for (int i = 0; i < n; ++i) {
      Quick state[Rule::kStates];
#pragma unroll
      for (int s = 0; s < Rule::kStates; ++s)
        state[s] = Quick(Element<T>::template widen<float>(states[s][i]));
      Rule::template apply<float>(state, Quick(Element<G>::template widen<float>(gradient[i])),
                                  factors);
#pragma unroll
      for (int s = 0; s < Rule::kStates; ++s) results[s][i] = state[s].v;
    }
#pragma unroll
    for (int s = 0; s < Rule::kStates; ++s)
      store_pack(static_cast<T*>(new_state(t, s)) + at, results[s]);
    if (t.copy != nullptr) store_copy(t, at, results[0]);
  }

  template <int n>
  __device__ static void store_copy(const UpdateTensor& t, std::int64_t at, const float (&w)[n]) {
    if (t.copy_type == DType::bf16)
      store_pack(static_cast<Bf16*>(t.copy) + at, w);
    else
      store_pack(static_cast<F16*>(t.copy) + at, w);
  }

  __device__ static void load(Raw& raw, const UpdateTensor& t, std::int64_t at) {
#pragma unroll
    for (int s = 0; s < Rule::kStates; ++s)
      load_words(raw.state[s], static_cast<const T*>(old_state(t, s)) + at);
    load_words(raw.gradient, static_cast<const G*>(t.gradient) + at);
  }

  /// Element `at`, of no pack.
  __device__ static void update_one(const UpdateTensor& t, std::int64_t at,
                                    const Factors& factors) {
    T state[Rule::kStates][1];
#pragma unroll
    for (int s = 0; s < Rule::kStates; ++s)
      state[s][0] = static_cast<const T*>(old_state(t, s))[at];
    const G gradient[1] = {static_cast<const G*>(t.gradient)[at]};
    update(t, at, state, gradient, factors);
  }
};

/// The factors are computed once a block, while its first reads are under way.
template <class T, class G, class Rule, int capacity>
__global__ void __launch_bounds__(kThreads, 3)
    update_packs(const __grid_constant__ Table<UpdateTensor, capacity> table, const Rule rule) {
  using P = Packs<T, G, Rule>;
  __shared__ typename P::Factors shared;
  typename P::Factors factors = {};
  bool known = false;
  for (std::int64_t chunk = blockIdx.x; chunk < table.chunks; chunk += gridDim.x) {
    const int tensor = tensor_of(table, chunk);
    const UpdateTensor& t = table.tensors[tensor];
    const std::int64_t begin = (chunk - table.first_chunk[tensor]) * kUpdateChunk;
    const int count =
        static_cast<int>(t.elements - begin < kUpdateChunk ? t.elements - begin : kUpdateChunk);
    const int packed = count / P::kPack * P::kPack;
    int at = static_cast<int>(threadIdx.x) * P::kPack;
    for (int base = 0; base == 0 || base < packed;
         base += P::kAtOnce * P::kStep, at += P::kAtOnce * P::kStep) {
      typename P::Raw raw[P::kAtOnce];
#pragma unroll
      for (int p = 0; p < P::kAtOnce; ++p)
        if (at + p * P::kStep < packed) P::load(raw[p], t, begin + at + p * P::kStep);
      if (!known) {
        if (threadIdx.x == 0) shared = rule.template factors<float>();
        __syncthreads();
        factors = shared;
        known = true;
      }
#pragma unroll
      for (int p = 0; p < P::kAtOnce; ++p)
        if (at + p * P::kStep < packed)
          P::update(t, begin + at + p * P::kStep, raw[p].state, raw[p].gradient, factors);
    }
    const int rest = packed + static_cast<int>(threadIdx.x);
    if (rest < count) P::update_one(t, begin + rest, factors);
  }
}

// ---- all other tensors
// ---------------------------------------------------------------------------------------------

template <class S, class Rule>
__device__ void update_element(const UpdateTensor& t, std::int64_t at,
                               const typename Rule::template Factors<S>& factors) {
  const DType types[] = {t.w_type, t.first_type, t.second_type};
  S state[Rule::kStates][1], g[1], now[Rule::kStates];
#pragma unroll
  for (int s = 0; s < Rule::kStates; ++s) {
    load_typed(state[s], old_state(t, s), types[s], at, 1);
    now[s] = state[s][0];
  }
  load_typed(g, t.gradient, t.gradient_type, at, 1);
  Rule::template apply<S>(now, g[0], factors);
#pragma unroll
  for (int s = 0; s < Rule::kStates; ++s) {
    state[s][0] = now[s];
    store_typed(new_state(t, s), types[s], state[s], at, 1);
  }
  if (t.copy != nullptr) store_typed(t.copy, t.copy_type, state[0], at, 1);
}

__host__ __device__ inline bool is_wide(DType dtype) {
  return dtype == DType::f64 || dtype == DType::i32;
}

template <class Rule, int capacity>
__global__ void __launch_bounds__(kThreads, 3)
    update_elements(const __grid_constant__ Table<UpdateTensor, capacity> table, const Rule rule) {
  __shared__ typename Rule::template Factors<float> narrow_factors;
  __shared__ typename Rule::template Factors<double> wide_factors;
  if (threadIdx.x == 0) {
    narrow_factors = rule.template factors<float>();
    wide_factors = rule.template factors<double>();
  }
  __syncthreads();
  for (std::int64_t chunk = blockIdx.x; chunk < table.chunks; chunk += gridDim.x) {
    const int tensor = tensor_of(table, chunk);
    const UpdateTensor& t = table.tensors[tensor];
    const std::int64_t begin = (chunk - table.first_chunk[tensor]) * kUpdateChunk;
    const std::int64_t end = begin + kUpdateChunk < t.elements ? begin + kUpdateChunk : t.elements;
    const bool wide = is_wide(t.w_type) || is_wide(t.first_type) || is_wide(t.gradient_type) ||
                      (Rule::kStates == 3 && is_wide(t.second_type));
    for (std::int64_t at = begin + threadIdx.x; at < end; at += kThreads)
      if (wide)
        update_element<double, Rule>(t, at, wide_factors);
      else
        update_element<float, Rule>(t, at, narrow_factors);
  }
}

// ---- launching
// ---------------------------------------------------------------------------------------------

/// Element types for which `update_packs` is compiled, and whether a tensor has them.
template <class T_, class G_>
struct Types {
  using T = T_;
  using G = G_;
};

template <class T>
constexpr DType dtype_of = DType::f32;
template <>
constexpr DType dtype_of<Bf16> = DType::bf16;
template <>
constexpr DType dtype_of<F16> = DType::f16;

template <class Rule>
bool is_aligned(const UpdateTensor& t) {
  const bool third = Rule::kStates < 3 || (aligned16(t.second) && aligned16(t.new_second));
  return third && aligned16(t.copy) && aligned16(t.w) && aligned16(t.new_w) && aligned16(t.first) &&
         aligned16(t.new_first) && aligned16(t.gradient);
}

template <class Rule, class T, class G>
bool belongs(Types<T, G>, const UpdateTensor& t) {
  return is_aligned<Rule>(t) && t.w_type == dtype_of<T> && t.first_type == dtype_of<T> &&
         (Rule::kStates < 3 || t.second_type == dtype_of<T>)&&t.gradient_type == dtype_of<G> &&
         (t.copy == nullptr || sizeof(T) == sizeof(float));
}

template <class Rule, class... Kinds>
Status run_rule(const UpdateTensor* tensors, int count, const Rule& rule, Stream stream,
                Kinds... kinds) {
  Status status = cudaSuccess;
  const auto run_kind = [&](auto kind) {
    using Kind = decltype(kind);
    if (status != cudaSuccess) return;
    status = for_tables(
        tensors, count, [&](const UpdateTensor& t) { return belongs<Rule>(kind, t); },
        [&](const auto& table) {
          return launch_table(
              update_packs<typename Kind::T, typename Kind::G, Rule, capacity_of<decltype(table)>>,
              kThreads, stream, table, rule);
        });
  };
  (run_kind(kinds), ...);
  if (status != cudaSuccess) return status;
  return for_tables(
      tensors, count, [&](const UpdateTensor& t) { return !(belongs<Rule>(kinds, t) || ...); },
      [&](const auto& table) {
        return launch_table(update_elements<Rule, capacity_of<decltype(table)>>, kThreads, stream,
                            table, rule);
      });
}

template <class Rule>
Status run_rule(const UpdateTensor* tensors, int count, const Rule& rule, Stream stream) {
  return run_rule(tensors, count, rule, stream, Types<float, float>(), Types<Bf16, Bf16>(),
                  Types<F16, F16>(), Types<float, Bf16>(), Types<float, F16>(),
                  Types<Bf16, float>(), Types<F16, float>());
}

}  // namespace

Status run_adam(const UpdateTensor* tensors, int count, const AdamSettings& settings,
                DeviceScalar learning_rate, DeviceScalar step, Stream stream) {
  return run_rule(tensors, count, Adam{settings, learning_rate, step}, stream);
}

Status run_add(const UpdateTensor* tensors, int count, Stream stream) {
  return run_rule(tensors, count, Add{}, stream);
}

Status run_sgd(const UpdateTensor* tensors, int count, const SgdSettings& settings,
               DeviceScalar learning_rate, Stream stream) {
  return run_rule(tensors, count, Sgd{settings, learning_rate}, stream);
}

}  // namespace alpa::cuda
