// kernels/cpu/draw.cc — random numbers of parts of tensors
#include "kernels/cpu/draw.h"

#include <algorithm>

#include "kernels/cpu/isa.h"

namespace alpa::cpu {
namespace {

constexpr std::int64_t kMaxLanes = kVectorBytes / static_cast<std::int64_t>(sizeof(double));

/// Whole groups are drawn, the wanted numbers kept.
void draw_elements(const RandomStream& stream, DrawFunction draw, std::uint64_t first,
                   double* values, std::int64_t n) {
  alignas(kVectorBytes) double drawn[kMostDrawn + 8 * kMaxLanes];
  const std::int64_t lanes = isa().random.lanes, skipped = static_cast<std::int64_t>(first % 4);
  const std::int64_t groups = ((skipped + n + 3) / 4 + lanes - 1) / lanes * lanes;
  draw(drawn, stream, first / 4, groups);
  std::copy_n(drawn + skipped, n, values);
}

}  // namespace

RandomStream stream_of(const KernelCall& call) {
  return random_stream(call.step->seed,
                       static_cast<std::uint64_t>(call.attributes->integer("stream")),
                       call.step->step, call.step->micro_batch);
}

void draw_uniform(const RandomStream& stream, std::uint64_t first, double* values, std::int64_t n) {
  draw_elements(stream, isa().random.uniform, first, values, n);
}

void draw_normal(const RandomStream& stream, std::uint64_t first, double* values, std::int64_t n) {
  draw_elements(stream, isa().random.normal, first, values, n);
}

std::int64_t global_index(const KernelTensor& y, std::int64_t row, std::int64_t column) {
  std::int64_t index = 0, scale = 1;
  for (int d = y.type.rank() - 1; d >= 0; --d) {
    const bool last = d == y.type.rank() - 1;
    const std::int64_t local = last ? column : row % y.type.shape[d];
    if (!last) row /= y.type.shape[d];
    index += (y.offset[d] + local) * scale;
    scale *= y.global_shape[d];
  }
  return index;
}

}  // namespace alpa::cpu
