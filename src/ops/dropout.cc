// src/ops/dropout.cc — y = x / (1 - rate) where a random number is at least the rate, else 0
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "kernels/cpu/kernels.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

std::vector<DType> dropout_dtypes(const OpQuery& query) {
  require(is_floating(query.operands[0].dtype), "dropout: {} is not a floating type; cast it",
          to_string(query.operands[0]));
  query.attributes.real("rate"), query.attributes.integer(kStreamAttribute);
  return {query.operands[0].dtype};
}

}  // namespace

// The gradient draws the same numbers again, so no mask is kept.
const OpDef ops::dropout = {
    .name = "dropout",
    .dims = "... -> ...",
    .result_dtypes = dropout_dtypes,
    .flops_per_point = 20,
    .linear = {0b1},
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      return {g.emit_one(ops::dropout, {dys[0]}, n.attributes)};
    },
    .in_place = InPlace::paired,
    .cpu = &cpu::dropout,
};

Value dropout(Value x, double rate) {
  require(static_cast<bool>(x), "dropout: the operand is an empty Value");
  require(rate >= 0 && rate < 1, "dropout: rate {} is not in [0, 1)", rate);
  if (rate == 0) return x;
  return recorder(x).emit_one(
      ops::dropout, {x},
      {{"rate", rate}, {std::string(kStreamAttribute), recorder(x).next_stream()}});
}

}  // namespace alpa
