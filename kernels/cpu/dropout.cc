// kernels/cpu/dropout.cc — dropout: blocks of rows, with numbers drawn by index in the whole tensor
#include <algorithm>

#include "kernels/cpu/block_io.h"
#include "kernels/cpu/draw.h"
#include "kernels/cpu/kernels.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

/// y = x / (1 - rate) where a number of the stream is at least `rate`, else 0.
template <class T>
void run_as(const KernelCall& call) {
  const KernelTensor &x = call.inputs[0], &y = call.outputs[0];
  const std::int64_t columns = x.type.shape.empty() ? 1 : x.type.shape.back();
  const double rate = call.attributes->real("rate");
  const auto threshold = static_cast<float>(rate);
  const T scale = static_cast<T>(1 / (1 - rate));
  const RandomStream stream = stream_of(call);
  call.team->parallel_for(x.type.elements(), 4096, [&](std::int64_t begin, std::int64_t end) {
    double drawn[kMostDrawn];
    T values[kMostDrawn];
    for (std::int64_t i = begin, n; i < end; i += n) {
      const std::int64_t column = i % columns;
      n = std::min({kMostDrawn, end - i, columns - column});
      draw_uniform(stream, static_cast<std::uint64_t>(global_index(y, i / columns, column)), drawn,
                   n);
      load_block(values, x.data, x.type.dtype, i, n);
      for (std::int64_t j = 0; j < n; ++j)
        values[j] = static_cast<float>(drawn[j]) >= threshold ? values[j] * scale : T(0);
      store_block(y.data, y.type.dtype, i, values, n);
    }
  });
}

}  // namespace

const KernelDef dropout{run_floating<run_as<float>, run_as<double>>};

}  // namespace alpa::cpu
