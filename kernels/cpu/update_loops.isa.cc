// kernels/cpu/update_loops.isa.cc — inner loops of optimizer updates, per instruction set
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"
#include "kernels/elementwise.h"

namespace alpa::cpu::ALPA_ISA {
namespace {

/// in: w, m, v, g; out: w, m, v
template <class V, class T = typename V::Scalar>
void adam(T* const* out, const T* const* in, std::int64_t n, const AdamScalars& same) {
  const AdamScalars scalars = same;  // a copy that no store can change
  for (std::int64_t i = 0; i < n; i += V::lanes) {
    V w = V::load(in[0] + i), m = V::load(in[1] + i), v = V::load(in[2] + i);
    elementwise::adam<T>(w, m, v, V::load(in[3] + i), scalars);
    w.store(out[0] + i);
    m.store(out[1] + i);
    v.store(out[2] + i);
  }
}

/// in: w, velocity, g; out: w, velocity
template <class V, class T = typename V::Scalar>
void sgd(T* const* out, const T* const* in, std::int64_t n, const SgdScalars& same) {
  const SgdScalars scalars = same;
  for (std::int64_t i = 0; i < n; i += V::lanes) {
    V w = V::load(in[0] + i), u = V::load(in[1] + i);
    elementwise::sgd<T>(w, u, V::load(in[2] + i), scalars);
    w.store(out[0] + i);
    u.store(out[1] + i);
  }
}

}  // namespace

const UpdateTable& update_table() {
  static constexpr UpdateTable table{{adam<F32>, sgd<F32>}, {adam<F64>, sgd<F64>}};
  return table;
}

}  // namespace alpa::cpu::ALPA_ISA
