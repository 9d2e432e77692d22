#pragma once
/// A tensor around one dimension: outer × extent × inner elements.
#include "alpa/base/shape.h"
#include "src/base/half.h"

namespace alpa::cpu {

struct Lines {
  std::int64_t outer = 1, extent = 1, inner = 1;

  Lines(const TensorType& type, std::int64_t axis) : extent(type.shape.at(axis)) {
    for (std::int64_t d = 0; d < type.rank(); ++d)
      if (d != axis) (d < axis ? outer : inner) *= type.shape[d];
  }
};

/// An element, to be computed with.
inline float widen(Bf16 x) { return to_float(x); }
inline float widen(F16 x) { return to_float(x); }
template <class T>
T widen(T x) {
  return x;
}

}  // namespace alpa::cpu
