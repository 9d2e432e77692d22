// src/ops/write_rows.cc — a tensor with new rows at positions that are known when it runs
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "kernels/cpu/kernels.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

std::vector<DType> checked_types(const OpQuery& query) {
  const TensorType &x = query.operands[0], &rows = query.operands[1];
  if (rows.dtype != x.dtype || query.operands[2].dtype != i32)
    fail("write_rows: x and rows must have one type and positions i32 ({}); cast them",
         to_string(query.operands));
  if (rows.shape[1] > x.shape[1])
    fail("write_rows: {} rows are more than x has ({})", rows.shape[1], to_string(query.operands));
  return {x.dtype};
}

}  // namespace

// Positions are any, so x's rows are whole. In place no others are moved.
const OpDef ops::write_rows = {
    .name = "write_rows",
    .dims = "b s! ..., b t! ..., b -> b s! ...",
    .result_dtypes = checked_types,
    .in_place = InPlace::paired,
    .cpu = &cpu::write_rows,
};

Value write_rows(Value x, Value rows, Value positions) {
  require(x && rows && positions, "write_rows: an operand is an empty Value");
  return recorder(x).emit_one(ops::write_rows, {x, rows, positions});
}

}  // namespace alpa
