// kernels/cpu/cross_entropy.cc — cross_entropy and cross_entropy_grad. Rows are read in blocks,
// once: a block's exponentials are relative to the largest logit so far. Sums over blocks are
// carried in double.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/block_io.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kernels.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

constexpr std::int64_t kGrain = 32 * 1024;  ///< elements worth a thread

/// The classes that a device holds, and what the rows' labels ask of them.
struct Classes {
  std::int64_t width;  ///< held
  std::int64_t first;  ///< of them
  double share;        ///< of every class in the target
  double weight;       ///< of the label beyond
  const std::int32_t* labels;

  explicit Classes(const KernelCall& call)
      : width(call.inputs[0].type.shape.back()),
        first(call.inputs[0].offset.back()),
        labels(call.inputs[1].as<std::int32_t>()) {
    const double smoothing = call.attributes->real("smoothing");
    share = smoothing / static_cast<double>(call.inputs[0].global_shape.back());
    weight = 1 - smoothing;
  }

  /// Place of the row's label among the classes, outside of [0, width) if it is none of them.
  std::int64_t label_of(std::int64_t row) const { return labels[row] - first; }
};

/// visit(row) for all rows, on all threads.
template <class Visit>
void for_rows(const KernelCall& call, std::int64_t width, const Visit& visit) {
  call.team->for_each(call.inputs[1].type.elements(), kGrain / std::max<std::int64_t>(1, width) + 1,
                      visit);
}

template <class T>
void sum_row(const KernelCall& call, const Classes& classes, std::int64_t row) {
  const KernelTensor& x = call.inputs[0];
  const auto& parts = loops<T>(isa().cross_entropy);
  const std::int64_t begin = row * classes.width, label = classes.label_of(row);
  Block<T> xs;
  T largest = -INFINITY;
  double sum = 0, target = 0;
  for_blocks(classes.width, [&](std::int64_t i, std::int64_t n) {
    const T *const block = xs.read(x, begin + i, n), before = largest;
    largest = reducing::combine<ReduceOp::max>(largest, parts.maximum(block, n));
    // A row with an infinite or no number needs no sum.
    if (std::isfinite(largest))
      sum = sum * std::exp(static_cast<double>(before) - static_cast<double>(largest)) +
            parts.exponentials(block, largest, n);
    if (classes.share > 0)
      target +=
          classes.share * loops<T>(isa().reduce)[static_cast<int>(ReduceOp::sum)].line(block, n);
    if (label >= i && label < i + n)
      target += classes.weight * static_cast<double>(block[label - i]);
  });
  put_element(call.outputs[0], row,
              std::isfinite(largest) ? static_cast<double>(largest) + std::log(sum) : largest);
  put_element(call.outputs[1], row, target);
}

template <class T>
void differentiate_row(const KernelCall& call, const Classes& classes, std::int64_t row) {
  const KernelTensor &x = call.inputs[0], &dx = call.outputs[0];
  const auto& parts = loops<T>(isa().cross_entropy);
  const std::int64_t begin = row * classes.width, label = classes.label_of(row);
  const T shift = static_cast<T>(element(call.inputs[2], row)),
          factor = static_cast<T>(element(call.inputs[3], row));
  const double dtarget = element(call.inputs[4], row);
  Block<T> xs, dxs;
  for_blocks(classes.width, [&](std::int64_t i, std::int64_t n) {
    T* const block = dxs.target(dx, begin + i);
    parts.gradient(block, xs.read(x, begin + i, n), shift, factor,
                   static_cast<T>(classes.share * dtarget), n);
    if (label >= i && label < i + n) block[label - i] += static_cast<T>(classes.weight * dtarget);
    dxs.written(dx, begin + i, n);
  });
}

void run_sums(const KernelCall& call) {
  const Classes classes(call);
  const bool wide = call.inputs[0].type.dtype == f64;
  for_rows(call, classes.width, [&](std::int64_t row) {
    wide ? sum_row<double>(call, classes, row) : sum_row<float>(call, classes, row);
  });
}

void run_gradient(const KernelCall& call) {
  const Classes classes(call);
  const bool wide = call.inputs[0].type.dtype == f64;
  for_rows(call, classes.width, [&](std::int64_t row) {
    wide ? differentiate_row<double>(call, classes, row)
         : differentiate_row<float>(call, classes, row);
  });
}

}  // namespace

const KernelDef cross_entropy{run_sums};
const KernelDef cross_entropy_grad{run_gradient};

}  // namespace alpa::cpu
