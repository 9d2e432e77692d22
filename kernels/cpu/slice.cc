// kernels/cpu/slice.cc — slice, pad, concatenate: copies along one dimension. A tensor is seen as
// outer × extent × inner; rows of `inner` elements are contiguous.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/block_io.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/strided_copy.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

constexpr std::int64_t kGrain = 64 * 1024;  ///< bytes worth a thread

/// A tensor around the dimension that moves.
struct Lines {
  std::int64_t outer = 1, extent = 1, row_bytes = 1;

  Lines(const TensorType& type, std::int64_t axis) : extent(type.shape.at(axis)) {
    row_bytes = static_cast<std::int64_t>(size_of(type.dtype));
    for (std::int64_t d = 0; d < type.rank(); ++d)
      if (d != axis) (d < axis ? outer : row_bytes) *= type.shape[d];
  }
  std::int64_t line_bytes() const { return extent * row_bytes; }
};

/// copy(outer index, begin, end) for all bytes of the lines of `y`, shared between threads.
template <class Copy>
void for_bytes(const Lines& y, ThreadTeam& team, const Copy& copy) {
  const std::int64_t line = y.line_bytes();
  team.parallel_for(y.outer * line, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t outer = at / line, stop = std::min(end, (outer + 1) * line);
      copy(outer, at - outer * line, stop - outer * line);
      at = stop;
    }
  });
}

// ---- slice

std::shared_ptr<const void> prepare_slice(const KernelCall& call) {
  const TensorType &x = call.inputs.at(0).type, &y = call.outputs.at(0).type;
  std::vector<std::int64_t> strides = kernels::dense_strides(x.shape);
  strides.at(call.attributes->integer("axis")) *= call.attributes->integer("stride");
  return std::make_shared<kernels::StridedCopy>(
      kernels::plan_strided_copy(y.shape, strides, size_of(x.dtype)));
}

void run_slice(const KernelCall& call) {
  const Lines x(call.inputs[0].type, call.attributes->integer("axis"));
  strided_copy(*static_cast<const kernels::StridedCopy*>(call.prepared.get()), call.outputs[0].data,
               call.inputs[0].data + call.attributes->integer("begin") * x.row_bytes, *call.team);
}

// ---- pad

/// Fills [begin, end) of a line, in bytes, with elements of value `element`.
void fill(std::byte* line, std::int64_t begin, std::int64_t end, const std::byte* element,
          std::size_t size) {
  if (std::all_of(element, element + size, [&](std::byte b) { return b == element[0]; }))
    std::memset(line + begin, static_cast<int>(element[0]), end - begin);
  else
    for (std::int64_t at = begin; at < end; ++at) line[at] = element[at % size];
}

/// One line of y: rows before + r · (interior + 1) are x's row r.
struct PaddedLine {
  std::int64_t before, stride, extent, row;
  const std::byte* element;
  std::size_t size;

  /// Bytes [begin, end) of line y.
  void write(std::byte* y, const std::byte* x, std::int64_t begin, std::int64_t end) const {
    while (begin < end) {
      const std::int64_t r = begin / row - before;
      std::int64_t stop = end;
      if (r >= 0 && r % stride == 0 && r / stride < extent) {
        stop = std::min(end, (before + r + (stride == 1 ? extent - r : 1)) * row);
        std::memcpy(y + begin, x + begin - (before + r - r / stride) * row, stop - begin);
      } else {
        if (r < 0)
          stop = std::min(end, before * row);
        else if (r / stride < extent - 1)
          stop = std::min(end, (before + (r / stride + 1) * stride) * row);
        fill(y, begin, stop, element, size);
      }
      begin = stop;
    }
  }
};

void run_pad(const KernelCall& call) {
  const std::int64_t axis = call.attributes->integer("axis");
  const Lines x(call.inputs[0].type, axis), y(call.outputs[0].type, axis);
  const DType dtype = call.outputs[0].type.dtype;
  alignas(8) std::byte element[8];
  const double value = call.attributes->real("value");
  store_block(element, dtype, 0, &value, 1);
  const PaddedLine line{call.attributes->integer("before"),
                        call.attributes->integer("interior") + 1,
                        x.extent,
                        x.row_bytes,
                        element,
                        size_of(dtype)};
  for_bytes(y, *call.team, [&](std::int64_t outer, std::int64_t begin, std::int64_t end) {
    line.write(call.outputs[0].data + outer * y.line_bytes(),
               call.inputs[0].data + outer * x.line_bytes(), begin, end);
  });
}

// ---- concatenate

void run_concatenate(const KernelCall& call) {
  const std::int64_t axis = call.attributes->integer("axis");
  const Lines y(call.outputs[0].type, axis);
  for_bytes(y, *call.team, [&](std::int64_t outer, std::int64_t begin, std::int64_t end) {
    std::byte* const to = call.outputs[0].data + outer * y.line_bytes();
    std::int64_t first = 0;
    for (const KernelTensor& part : call.inputs) {
      const std::int64_t bytes = part.type.shape[axis] * y.row_bytes, from = std::max(begin, first),
                         stop = std::min(end, first + bytes);
      if (from < stop)
        std::memcpy(to + from, part.data + outer * bytes + from - first, stop - from);
      first += bytes;
    }
  });
}

}  // namespace

const KernelDef slice{run_slice, prepare_slice, nullptr};
const KernelDef pad{run_pad};
const KernelDef concatenate{run_concatenate};

}  // namespace alpa::cpu
