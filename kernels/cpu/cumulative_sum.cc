// kernels/cpu/cumulative_sum.cc — sums along one dimension, carried in double
#include <algorithm>

#include "kernels/cpu/block_io.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/lines.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

constexpr std::int64_t kBlock = 512;        ///< elements handled at once
constexpr std::int64_t kGrain = 16 * 1024;  ///< elements worth a thread

/// Inner elements [first, first + n) of line `outer`, all along the axis: n sums side by side.
template <class T>
struct Columns {
  const KernelCall& call;
  const Lines& lines;
  bool exclusive, reverse;

  void run(std::int64_t outer, std::int64_t first, std::int64_t n) const {
    double sums[kBlock] = {};
    T x[kBlock], y[kBlock];
    for (std::int64_t i = 0; i < lines.extent; ++i) {
      const std::int64_t e = reverse ? lines.extent - 1 - i : i,
                         at = (outer * lines.extent + e) * lines.inner + first;
      load_block(x, call.inputs[0].data, call.inputs[0].type.dtype, at, n);
      for (std::int64_t c = 0; c < n; ++c) {
        const double before = sums[c];
        sums[c] += static_cast<double>(x[c]);
        y[c] = static_cast<T>(exclusive ? before : sums[c]);
      }
      store_block(call.outputs[0].data, call.outputs[0].type.dtype, at, y, n);
    }
  }
};

/// The same where the axis is the innermost dimension: blocks of one line, one sum.
template <class T>
struct Line {
  const KernelCall& call;
  std::int64_t extent;
  bool exclusive, reverse;

  void run(std::int64_t outer) const {
    double sum = 0;
    T x[kBlock];
    for (std::int64_t done = 0; done < extent; done += kBlock) {
      const std::int64_t n = std::min(kBlock, extent - done),
                         at = outer * extent + (reverse ? extent - done - n : done);
      load_block(x, call.inputs[0].data, call.inputs[0].type.dtype, at, n);
      for (std::int64_t i = 0; i < n; ++i) {
        T& element = x[reverse ? n - 1 - i : i];
        const double before = sum;
        sum += static_cast<double>(element);
        element = static_cast<T>(exclusive ? before : sum);
      }
      store_block(call.outputs[0].data, call.outputs[0].type.dtype, at, x, n);
    }
  }
};

template <class T>
void add_up(const KernelCall& call) {
  const Lines lines(call.inputs[0].type, call.attributes->integer("axis"));
  const bool exclusive = call.attributes->integer("exclusive") != 0,
             reverse = call.attributes->integer("reverse") != 0;
  const std::int64_t blocks = (lines.inner + kBlock - 1) / kBlock,
                     work = lines.extent * std::min(lines.inner, kBlock);
  call.team->for_each(lines.outer * blocks, kGrain / std::max<std::int64_t>(1, work) + 1,
                      [&](std::int64_t task) {
                        const std::int64_t first = task % blocks * kBlock;
                        if (lines.inner == 1)
                          Line<T>{call, lines.extent, exclusive, reverse}.run(task);
                        else
                          Columns<T>{call, lines, exclusive, reverse}.run(
                              task / blocks, first, std::min(kBlock, lines.inner - first));
                      });
}

void run_cumulative_sum(const KernelCall& call) {
  if (needs_double(call.inputs[0].type.dtype))
    add_up<double>(call);
  else
    add_up<float>(call);
}

}  // namespace

const KernelDef cumulative_sum{run_cumulative_sum};

}  // namespace alpa::cpu
