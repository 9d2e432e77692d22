// src/ops/quantized_matmul.cc — y[…, n] = Σ x[…, (be)] w[n, b, e], where the elements e of block b
// are in the bytes c of the kernel [n, b, c]; and its gradient, dx = dy · Wᵀ
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "kernels/plan/quantized_block.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

using kernels::kBlockElements;

/// Rows of x or dy, then features, blocks, and the elements and bytes of a block. Devices may hold
/// some of the features, or whole blocks.
template <bool backward>
Rule quantized_rule(const OpQuery& query) {
  ops::require_operands(query, 2);
  const TensorType &from = query.operands[0], &kernel = query.operands[1];
  const bool fits =
      from.dtype == f32 && from.rank() >= 1 && kernels::is_quantized(kernel) &&
      from.shape.back() == (backward ? kernel.shape[0] : kernel.shape[1] * kBlockElements);
  if (!fits)
    fail("{}: needs {}, and a kernel u8 [features, in / {}, 34, 18 or 20] ({})", query.op->name,
         backward ? "dy f32 [..., features]" : "x f32 [..., in]", kBlockElements,
         to_string(query.operands));
  const int n = from.rank() - 1, b = n + 1, e = n + 2, c = n + 3;
  DimFactors rows;
  Rule rule{.factors = {},
            .operands = {},
            .results = {},
            .work = {{n, b, e}},
            .linear = {0b01},
            .flops_per_point = 2};
  for (int d = 0; d < n; ++d) {
    rows.push_back({d});
    rule.work[0].push_back(d);
    rule.factors.push_back({from.shape[d]});
  }
  rule.factors.insert(rule.factors.end(), {{kernel.shape[0]},
                                           {kernel.shape[1], false, true},
                                           {kBlockElements, true},
                                           {kernel.shape[2], true}});
  DimFactors x = rows, y = rows;
  x.push_back({b, e}), y.push_back({n});
  rule.operands = {backward ? y : x, {{n}, {b}, {c}}};
  rule.results = {backward ? x : y};
  rule.reduced = {{{backward ? n : b}}};
  return rule;
}

template <const OpDef& op>
std::vector<Value> other_way(Recorder& g, const Node& n, const Values& dys) {
  return {g.emit_one(op, {dys[0], g.operand(n, 1)}), Value{}};
}

}  // namespace

const OpDef ops::quantized_matmul = {
    .name = "quantized_matmul",
    .rule = quantized_rule<false>,
    .vjp = other_way<quantized_matmul_grad>,
    .work = Work::heavy,
    .cpu = &cpu::quantized_matmul,
};

const OpDef ops::quantized_matmul_grad = {
    .name = "quantized_matmul_grad",
    .rule = quantized_rule<true>,
    .vjp = other_way<quantized_matmul>,
    .work = Work::heavy,
    .cpu = &cpu::quantized_matmul_grad,
};

Value quantized_matmul(Value x, Value kernel) {
  require(x && kernel, "quantized_matmul: an operand is an empty Value");
  return recorder(x).emit_one(ops::quantized_matmul, {x, kernel});
}

}  // namespace alpa
