#pragma once
/// All reductions, shared by every backend: how two elements are combined, and the result for no
/// elements. C++17. `T` is float or double, or a vector of them as in kernels/elementwise.h.
#include <cmath>
#include <cstdint>
#include <utility>

#include "kernels/elementwise.h"

namespace alpa {

enum class ReduceOp : std::uint8_t {
  sum,
  max,  ///< NaN if one element is
};

inline constexpr int kNumReduceOps = static_cast<int>(ReduceOp::max) + 1;

namespace reducing {

// All are inlined whatever the optimisation: files that are compiled for several instruction sets
// may leave no copies behind.

/// Scalars behave as one-lane vectors.
template <class T>
ALPA_HOST_DEVICE inline __attribute__((always_inline)) T select(bool mask, T a, T b) {
  return mask ? a : b;
}

/// a ⊕ b. A kernel may put elements together in any order.
template <ReduceOp op, class T>
ALPA_HOST_DEVICE inline __attribute__((always_inline)) T combine(T a, T b) {
  if constexpr (op == ReduceOp::sum) return a + b;
  if constexpr (op == ReduceOp::max) return select(a > b, a, select(a == a, b, a));
}

/// x ⊕ neutral = x.
template <ReduceOp op, class T>
ALPA_HOST_DEVICE inline __attribute__((always_inline)) constexpr T neutral() {
  if constexpr (op == ReduceOp::sum) return T(0);
  if constexpr (op == ReduceOp::max) return T(-INFINITY);
}

/// f(std::integral_constant<ReduceOp, op>()).
template <class F, int... ops>
auto with_op(ReduceOp op, const F& f, std::integer_sequence<int, ops...>) {
  decltype(f(std::integral_constant<ReduceOp, ReduceOp::sum>())) result{};
  ((static_cast<int>(op) == ops
        ? static_cast<void>(result =
                                f(std::integral_constant<ReduceOp, static_cast<ReduceOp>(ops)>()))
        : void()),
   ...);
  return result;
}
template <class F>
auto with_op(ReduceOp op, const F& f) {
  return with_op(op, f, std::make_integer_sequence<int, kNumReduceOps>());
}

}  // namespace reducing
}  // namespace alpa
