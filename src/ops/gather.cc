// src/ops/gather.cc — gather and scatter_add along any dimension, composed of the rows of a table
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "simplify.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

/// 0 … rank-1 with `count` dimensions from `from` on moved to `to`, where the others make room.
Axes moved(std::int64_t rank, std::int64_t from, std::int64_t count, std::int64_t to) {
  Axes axes;
  for (std::int64_t d = 0; d < rank; ++d)
    if (d < from || d >= from + count) axes.push_back(d);
  Axes block = ops::first_dims(count);
  for (std::int64_t& d : block) d += from;
  axes.insert(axes.begin() + to, block.begin(), block.end());
  return axes;
}

}  // namespace

Value gather(Value x, Value ids, std::int64_t axis) {
  require(x && ids, "gather: an operand is an empty Value");
  const std::int64_t d = ops::checked_axis("gather", axis, x.type()), extent = x.shape()[d];
  if (!is_floating(x.dtype()) || ids.dtype() != i32)
    fail("gather: x must have a floating type and ids i32 (x {}, ids {}); cast them",
         to_string(x.type()), to_string(ids.type()));
  const Value first = transpose(x, moved(x.rank(), d, 1, 0));
  Shape rest(first.shape().begin() + 1, first.shape().end()), picked = ids.shape();
  picked.insert(picked.end(), rest.begin(), rest.end());
  const Value rows = embedding(reshape(first, {extent, num_elements(rest)}), ids);
  return transpose(reshape(rows, picked),
                   moved(static_cast<std::int64_t>(picked.size()), 0, ids.rank(), d));
}

Value scatter_add(Value rows, Value ids, std::int64_t extent) {
  require(rows && ids, "scatter_add: an operand is an empty Value");
  require(extent >= 1, "scatter_add: the result needs at least one row, not {}", extent);
  Shape expected = ids.shape();
  if (rows.rank() > 0) expected.push_back(rows.shape().back());
  if (!is_floating(rows.dtype()) || ids.dtype() != i32 || rows.shape() != expected)
    fail(
        "scatter_add: rows must be floating with the dimensions of ids and a width, and ids i32 "
        "(rows {}, ids {})",
        to_string(rows.type()), to_string(ids.type()));
  return recorder(rows).emit_one(ops::embedding_grad, {rows, ids}, {{"rows", extent}});
}

}  // namespace alpa
