// kernels/cpu/quantized_matmul.cc — products with quantised kernels. Of few rows, blocks are
// multiplied as they are decoded; of more, panels of the kernel that stay in the second cache.
#include <algorithm>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/matmul.h"
#include "kernels/plan/quantized_block.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

using kernels::kBlockElements;

/// Results and terms of a panel. Narrow ones pack the rows of x again and again.
constexpr std::int64_t kLeastWidth = 96, kMostWidth = 384, kDepth = 512;

/// x [rows, terms] times a kernel [features, blocks], or, backward, the other way: y [rows,
/// results].
struct Sizes {
  std::int64_t rows, features, blocks, terms, results;
  const QuantizedLoops& loops;
  std::int64_t bytes;  ///< of a block

  Sizes(const KernelTensor& kernel, const KernelTensor& x, const KernelTensor& y)
      : rows(x.type.shape.back() > 0 ? x.type.elements() / x.type.shape.back() : 0),
        features(kernel.type.shape[0]),
        blocks(kernel.type.shape[1]),
        terms(x.type.shape.back()),
        results(y.type.shape.back()),
        loops(isa().quantized.types[kernels::quantization(kernel.type.shape[2])]),
        bytes(kernel.type.shape[2]) {}
};

/// Results of a panel: whole blocks, and about as many panels for each thread.
std::int64_t panel_width(std::int64_t results, std::int64_t threads) {
  const std::int64_t rounds = (results - 1) / (threads * kMostWidth) + 1;
  const std::int64_t blocks = (results - 1) / (threads * rounds * kBlockElements) + 1;
  return std::clamp(blocks * kBlockElements, kLeastWidth, kMostWidth);
}

/// `width` results from `first` on, of every row.
template <bool backward>
void multiply_panels(const Sizes& s, const KernelCall& call, std::int64_t first,
                     std::int64_t width) {
  alignas(64) float panel[kMostWidth * kDepth];
  const float* const x = call.inputs[0].as<float>();
  for (std::int64_t t = 0, depth; t < s.terms; t += depth) {
    depth = std::min(kDepth, s.terms - t);
    const std::int64_t feature = backward ? t : first, element = backward ? first : t;
    const std::int64_t lines = backward ? depth : width, length = backward ? width : depth;
    const std::byte* const from =
        call.inputs[1].data + (feature * s.blocks + element / kBlockElements) * s.bytes;
    for (std::int64_t line = 0; line < lines; ++line)
      s.loops.decode(panel + line * length, from + line * s.blocks * s.bytes,
                     length / kBlockElements);
    gemm(s.rows, width, depth, Panel<float>{x + t, s.terms}, Panel<float>{panel, length, !backward},
         t > 0, call.outputs[0].as<float>() + first, s.results, call.sums.is_fixed());
  }
}

/// Results of few rows, from `first` on.
void multiply_few(const Sizes& s, const KernelCall& call, std::int64_t first, std::int64_t width) {
  s.loops.multiply_rows({.x = call.inputs[0].as<float>(),
                         .kernel = call.inputs[1].data + first * s.blocks * s.bytes,
                         .y = call.outputs[0].as<float>() + first,
                         .rows = s.rows,
                         .features = width,
                         .blocks = s.blocks,
                         .y_row = s.results});
}

template <bool backward>
void run_quantized(const KernelCall& call) {
  const Sizes s(call.inputs[1], call.inputs[0], call.outputs[0]);
  if (s.terms == 0) std::fill_n(call.outputs[0].data, call.outputs[0].type.bytes(), std::byte{0});
  if (s.rows == 0 || s.terms == 0) return;
  const bool few = !backward && s.rows <= kMostRows && !call.sums.is_fixed();
  const std::int64_t unit = few ? 16 : panel_width(s.results, call.team->size());
  call.team->parallel_for(
      (s.results + unit - 1) / unit, 1, [&](std::int64_t begin, std::int64_t end) {
        if (few)
          return multiply_few(s, call, begin * unit,
                              std::min(end * unit, s.results) - begin * unit);
        for (std::int64_t first = begin * unit; first < std::min(end * unit, s.results);
             first += unit)
          multiply_panels<backward>(s, call, first, std::min(unit, s.results - first));
      });
}

}  // namespace

const KernelDef quantized_matmul{run_quantized<false>};
const KernelDef quantized_matmul_grad{run_quantized<true>};

}  // namespace alpa::cpu
