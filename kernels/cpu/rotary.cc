// kernels/cpu/rotary.cc — rotary position embedding. The angles of a position are computed once for
// all heads, and for all rows of the batch that share positions.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/block_io.h"
#include "kernels/cpu/kernels.h"
#include "kernels/plan/rotary_shape.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

using kernels::RotaryShape;

/// Widest head whose angles a thread keeps at a time; wider ones are done in parts.
constexpr std::int64_t kPairs = 256;

/// Sine and cosine in double. The angle is brought to [-π/4, π/4]; coefficients of fdlibm. Exact to
/// 1e-15 for |angle| < 1e6; the C library takes ten times as long.
void sine_cosine(double angle, double& sine, double& cosine) {
  const double quarter = std::nearbyint(angle * 0.63661977236758134308);
  const double r =
      (angle - quarter * 1.57079632673412561417) - quarter * 6.07710050650619224932e-11;
  const double z = r * r;
  const double s =
      r + r * z *
              (-1.66666666666666324348e-01 +
               z * (8.33333333332248946124e-03 +
                    z * (-1.98412698298579493134e-04 +
                         z * (2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 +
                                                                z * 1.58969099521155010221e-10)))));
  const double c =
      1 - 0.5 * z +
      z * z *
          (4.16666666666666019037e-02 +
           z * (-1.38888888888741095749e-03 +
                z * (2.48015872894767294178e-05 +
                     z * (-2.75573143513906633035e-07 +
                          z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
  const auto turns = static_cast<std::int64_t>(quarter) & 3;
  sine = turns == 0 ? s : turns == 1 ? c : turns == 2 ? -s : -c;
  cosine = turns == 0 ? c : turns == 1 ? -s : turns == 2 ? -c : s;
}

template <class T>
struct Angles {
  T sine[kPairs], cosine[kPairs];
};

/// Of pairs [first, first + n).
template <class T>
void fill(Angles<T>& angles, const double* frequencies, double position, double magnitude,
          std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    double sine = 0, cosine = 0;
    sine_cosine(position * frequencies[i], sine, cosine);
    angles.sine[i] = static_cast<T>(magnitude * sine);
    angles.cosine[i] = static_cast<T>(magnitude * cosine);
  }
}

/// Elements `first` and `second` of n pairs.
template <class T>
void turn(const Angles<T>& angles, T* first, T* second, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T a = first[i], b = second[i];
    first[i] = a * angles.cosine[i] - b * angles.sine[i];
    second[i] = b * angles.cosine[i] + a * angles.sine[i];
  }
}

/// Turns the pairs [begin, begin + n) of the head at `element`.
template <class T>
void turn_head(const KernelCall& call, const RotaryShape& s, const Angles<T>& angles,
               std::int64_t element, std::int64_t begin, std::int64_t n) {
  const KernelTensor &x = call.inputs[0], &y = call.outputs[0];
  T first[kPairs], second[kPairs];
  if (s.interleaved) {
    T both[2 * kPairs];
    load_block(both, x.data, s.dtype, element + 2 * begin, 2 * n);
    for (std::int64_t i = 0; i < n; ++i) first[i] = both[2 * i], second[i] = both[2 * i + 1];
    turn(angles, first, second, n);
    for (std::int64_t i = 0; i < n; ++i) both[2 * i] = first[i], both[2 * i + 1] = second[i];
    store_block(y.data, s.dtype, element + 2 * begin, both, 2 * n);
    return;
  }
  const std::int64_t half = s.width / 2;
  load_block(first, x.data, s.dtype, element + begin, n);
  load_block(second, x.data, s.dtype, element + half + begin, n);
  turn(angles, first, second, n);
  store_block(y.data, s.dtype, element + begin, first, n);
  store_block(y.data, s.dtype, element + half + begin, second, n);
}

/// All heads at time t in rows [first_row, last_row).
template <class T>
void turn_time(const KernelCall& call, const RotaryShape& s, const std::vector<double>& frequencies,
               std::int64_t t, std::int64_t first_row, std::int64_t last_row) {
  const std::int64_t at = s.per_row ? first_row * s.time + t : t;
  const double position = call.inputs[1].as<std::int32_t>()[at];
  Angles<T> angles;
  for (std::int64_t begin = 0; begin < s.width / 2; begin += kPairs) {
    const std::int64_t n = std::min(kPairs, s.width / 2 - begin);
    fill(angles, frequencies.data() + begin, position, s.magnitude, n);
    for (std::int64_t row = first_row; row < last_row; ++row)
      for (std::int64_t head = 0; head < s.heads; ++head)
        turn_head(call, s, angles, ((row * s.time + t) * s.heads + head) * s.width, begin, n);
  }
}

template <class T>
void run_as(const KernelCall& call, const RotaryShape& s, const std::vector<double>& frequencies) {
  const std::int64_t rows = s.per_row ? 1 : s.batch;  // that share angles
  call.team->for_each(s.per_row ? s.batch * s.time : s.time, 8, [&](std::int64_t i) {
    const std::int64_t first = s.per_row ? i / s.time : 0;
    turn_time<T>(call, s, frequencies, i % s.time, first, first + rows);
  });
}

/// Radians per position of every pair.
std::shared_ptr<const void> prepare_rotary(const KernelCall& call) {
  const RotaryShape s = kernels::rotary_shape(call);
  auto frequencies = std::make_shared<std::vector<double>>(s.width / 2);
  for (std::int64_t i = 0; i < s.width / 2; ++i)
    (*frequencies)[i] = (s.backward ? -1 : 1) * kernels::rotary_frequency(s, i);
  return frequencies;
}

void run_rotary(const KernelCall& call) {
  const RotaryShape s = kernels::rotary_shape(call);
  const auto& frequencies = *static_cast<const std::vector<double>*>(call.prepared.get());
  s.dtype == f64 ? run_as<double>(call, s, frequencies) : run_as<float>(call, s, frequencies);
}

}  // namespace

const KernelDef rotary{run_rotary, prepare_rotary, nullptr};

}  // namespace alpa::cpu
