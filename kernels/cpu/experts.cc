// kernels/cpu/experts.cc — dispatch, combine and expert_products. Each row of a result is one
// thread's: of dispatch a place of an expert, else a token.
#include <algorithm>

#include "alpa/base/error.h"
#include "kernels/cpu/block_io.h"
#include "kernels/cpu/buckets.h"
#include "kernels/cpu/kernels.h"
#include "kernels/plan/experts_shape.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

using kernels::ExpertsShape;

constexpr std::int64_t kGrain = 16 * 1024;  ///< elements worth a thread

/// Where the choices of a call are.
class Places {
 public:
  /// `places`: i32 [G, S, K]; `held`: [E, G, C, M].
  Places(const KernelTensor& places, const KernelTensor& held)
      : shape(kernels::experts_shape(places, held)), places_(places.as<std::int32_t>()) {}

  const ExpertsShape shape;

  std::int64_t tokens() const { return shape.groups * shape.tokens; }
  std::int64_t choices() const { return tokens() * shape.choices; }
  /// Row of [E, G, C] that a choice is at, -1 if this device has none. Throws Error if no expert
  /// has.
  std::int64_t row_of(std::int64_t choice) const {
    const std::int64_t place = places_[choice], first = shape.first * shape.capacity;
    require(place < shape.all * shape.capacity,
            "place {} is outside of those of {} experts, 0 to {}; give a negative one for none",
            place, shape.all, shape.all * shape.capacity - 1);
    if (place < first || place >= first + shape.experts * shape.capacity) return -1;
    const Division at = divide(place - first, shape.capacity);
    const std::int64_t group = choice / (shape.tokens * shape.choices);
    return (at.quotient * shape.groups + group) * shape.capacity + at.remainder;
  }
  std::int64_t token_of(std::int64_t choice) const { return choice / shape.choices; }

 private:
  const std::int32_t* places_;
};

/// visit(row) for the rows of a result, on the call's threads.
template <class Visit>
void for_rows(const KernelCall& call, std::int64_t rows, std::int64_t width, const Visit& visit) {
  call.team->for_each(rows, kGrain / std::max<std::int64_t>(1, width) + 1, visit);
}

/// A row of x to be added, and its weight.
template <class T>
struct Term {
  std::int64_t row;
  T weight;
};

/// Row `row` of y: the sum of weight · row of x over `terms`, which are visited in order.
template <class T, class Terms>
void add_rows(const KernelTensor& x, const KernelTensor& y, std::int64_t row, const Terms& terms) {
  const std::int64_t width = y.type.shape.back();
  Block<T> from, to;
  for_blocks(width, [&](std::int64_t first, std::int64_t n) {
    T* const sums = to.target(y, row * width + first);
    std::fill_n(sums, n, T(0));
    terms([&](Term<T> term) {
      const T* const values = from.read(x, term.row * width + first, n);
      for (std::int64_t i = 0; i < n; ++i) sums[i] += term.weight * values[i];
    });
    to.written(y, row * width + first, n);
  });
}

template <class T>
T weight_at(const KernelCall& call, std::int64_t choice) {
  return call.inputs.size() == 3 ? call.inputs[2].as<T>()[choice] : T(1);
}

template <class T>
void dispatch_rows(const KernelCall& call) {
  const KernelTensor &x = call.inputs[0], &y = call.outputs[0];
  const Places places(call.inputs[1], y);
  const Buckets buckets = sort_entries(call, places.shape.rows(), places.choices(),
                                       [&](std::int64_t choice) { return places.row_of(choice); });
  for_rows(call, places.shape.rows(), places.shape.width, [&](std::int64_t row) {
    add_rows<T>(x, y, row, [&](const auto& add) {
      for (const std::int64_t* c = buckets.begin(row); c < buckets.end(row); ++c)
        add(Term<T>{places.token_of(*c), weight_at<T>(call, *c)});
    });
  });
}

template <class T>
void combine_rows(const KernelCall& call) {
  const KernelTensor &results = call.inputs[0], &y = call.outputs[0];
  const Places places(call.inputs[1], results);
  const std::int64_t choices = places.shape.choices;
  for_rows(call, places.tokens(), places.shape.width * choices, [&](std::int64_t token) {
    add_rows<T>(results, y, token, [&](const auto& add) {
      for (std::int64_t c = token * choices; c < (token + 1) * choices; ++c)
        if (const std::int64_t row = places.row_of(c); row >= 0)
          add(Term<T>{row, weight_at<T>(call, c)});
    });
  });
}

/// Σ of the products of n elements, in sums that are independent of each other.
template <class T>
double product_of(const T* x, const T* y, std::int64_t n) {
  constexpr int kWays = 8;
  double sums[kWays] = {}, sum = 0;
  std::int64_t i = 0;
  for (; i + kWays <= n; i += kWays)
    for (int way = 0; way < kWays; ++way) sums[way] += double(x[i + way]) * double(y[i + way]);
  for (; i < n; ++i) sum += double(x[i]) * double(y[i]);
  for (const double part : sums) sum += part;
  return sum;
}

template <class T>
void multiply_rows(const KernelCall& call) {
  const KernelTensor &x = call.inputs[0], &results = call.inputs[2];
  const Places places(call.inputs[1], results);
  T* const to = call.outputs[0].as<T>();
  const std::int64_t width = places.shape.width;
  for_rows(call, places.choices(), width, [&](std::int64_t choice) {
    const std::int64_t row = places.row_of(choice), token = places.token_of(choice);
    Block<T> a, b;
    double sum = 0;
    for_blocks(row < 0 ? 0 : width, [&](std::int64_t first, std::int64_t n) {
      sum += product_of(a.read(x, token * width + first, n),
                        b.read(results, row * width + first, n), n);
    });
    to[choice] = static_cast<T>(sum);
  });
}

std::int64_t dispatch_workspace(const KernelCall& call) {
  return buckets_bytes(kernels::experts_shape(call.inputs.at(1), call.outputs.at(0)).rows(),
                       call.inputs[1].type.elements());
}

}  // namespace

const KernelDef dispatch{run_floating<dispatch_rows<float>, dispatch_rows<double>>, nullptr,
                         dispatch_workspace};
const KernelDef combine{run_floating<combine_rows<float>, combine_rows<double>>};
const KernelDef expert_products{run_floating<multiply_rows<float>, multiply_rows<double>>};

}  // namespace alpa::cpu
