// kernels/cpu/fill.cc — operators without operands: constant, iota, random_normal, random_uniform
#include <algorithm>
#include <cstring>

#include "kernels/cpu/block_io.h"
#include "kernels/cpu/draw.h"
#include "kernels/cpu/kernels.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

constexpr std::int64_t kBlock = kMostDrawn;

/// Writes make(row, column, values, n) for pieces of rows of the result's last dimension; a scalar
/// is one row of one column.
template <class Make>
void fill_rows(const KernelCall& call, const Make& make) {
  const KernelTensor& y = call.outputs[0];
  const std::int64_t columns = y.type.shape.empty() ? 1 : y.type.shape.back(),
                     elements = y.type.elements();
  if (elements == 0) return;
  call.team->parallel_for(elements, 4096, [&](std::int64_t begin, std::int64_t end) {
    double values[kBlock];
    for (std::int64_t i = begin, n; i < end; i += n) {
      const std::int64_t row = i / columns, column = i % columns;
      n = std::min({kBlock, end - i, columns - column});
      make(row, column, values, n);
      store_block(y.data, y.type.dtype, i, values, n);
    }
  });
}

void run_constant(const KernelCall& call) {
  const KernelTensor& y = call.outputs[0];
  double values[kBlock];
  std::fill(values, values + kBlock, call.attributes->real("value"));
  std::byte bytes[kBlock * sizeof(double)];
  store_block(bytes, y.type.dtype, 0, values, kBlock);
  const std::int64_t block_bytes = kBlock * static_cast<std::int64_t>(size_of(y.type.dtype)),
                     total = y.type.bytes();
  call.team->parallel_for(
      (total + block_bytes - 1) / block_bytes, 32, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin * block_bytes; i < std::min(end * block_bytes, total);
             i += block_bytes)
          std::memcpy(y.data + i, bytes,
                      static_cast<std::size_t>(std::min(block_bytes, total - i)));
      });
}

/// Local index along dimension `axis` of the first element of local row `row`.
std::int64_t index_along(const Shape& shape, int axis, std::int64_t row) {
  for (int d = static_cast<int>(shape.size()) - 2; d > axis; --d) row /= shape[d];
  return row % shape[axis];
}

void run_iota(const KernelCall& call) {
  const KernelTensor& y = call.outputs[0];
  const int axis = static_cast<int>(call.attributes->integer("axis"));
  const bool inner = axis == y.type.rank() - 1;
  fill_rows(call, [&](std::int64_t row, std::int64_t column, double* values, std::int64_t n) {
    const std::int64_t first =
        y.offset.at(axis) + (inner ? column : index_along(y.type.shape, axis, row));
    for (std::int64_t i = 0; i < n; ++i) values[i] = static_cast<double>(first + (inner ? i : 0));
  });
}

/// Every element is offset + scale · number of the stream.
void run_random(const KernelCall& call, decltype(draw_uniform)* draw, double offset, double scale) {
  const KernelTensor& y = call.outputs[0];
  const RandomStream stream = stream_of(call);
  fill_rows(call, [&](std::int64_t row, std::int64_t column, double* values, std::int64_t n) {
    draw(stream, static_cast<std::uint64_t>(global_index(y, row, column)), values, n);
    for (std::int64_t i = 0; i < n; ++i) values[i] = offset + scale * values[i];
  });
}

void run_normal(const KernelCall& call) {
  run_random(call, draw_normal, call.attributes->real("a"), call.attributes->real("b"));
}

void run_uniform(const KernelCall& call) {
  const double low = call.attributes->real("a"), high = call.attributes->real("b");
  run_random(call, draw_uniform, low, high - low);
}

}  // namespace

const KernelDef constant{run_constant};
const KernelDef iota{run_iota};
const KernelDef random_normal{run_normal};
const KernelDef random_uniform{run_uniform};

}  // namespace alpa::cpu
