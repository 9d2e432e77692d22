// src/ops/max_pool.cc — largest element of every window, NHWC, and its gradient
#include "alpa/base/error.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "windows.h"

namespace alpa {
namespace {

/// Operands and results are images [B, H, W, C] or pooled ones [B, H', W', C].
Rule pooling_rule(const OpQuery& query, const Shape& image, const std::vector<bool>& pooled,
                  bool pooled_result) {
  const Axes counts =
      ops::window_counts(query, {image[1], image[2]}, query.attributes.integers("window"));
  Rule rule;
  rule.factors = {{image[0]},       {image[3]},        {image[1], true},
                  {image[2], true}, {counts[0], true}, {counts[1], true}};
  const auto dims = [](bool small) {
    return small ? DimFactors{{0}, {4}, {5}, {1}} : DimFactors{{0}, {2}, {3}, {1}};
  };
  for (bool small : pooled) rule.operands.push_back(dims(small));
  rule.results = {dims(pooled_result)};
  rule.linear = query.op->linear;
  rule.flops_per_point = query.op->flops_per_point;
  rule.work = {{0, 1, 4, 5}};
  const Axes& window = query.attributes.integers("window");
  rule.flops_per_point *= static_cast<double>(window[0] * window[1]);
  return rule;
}

void check_image(const OpQuery& query, const TensorType& x) {
  if (!is_floating(x.dtype) || x.rank() != 4)
    fail("{}: x must be floating, [B, H, W, C] ({})", query.op->name, to_string(query.operands));
}

Rule max_pool_rule(const OpQuery& query) {
  ops::require_operands(query, 1);
  check_image(query, query.operands[0]);
  return pooling_rule(query, query.operands[0].shape, {false}, true);
}

Rule max_pool_grad_rule(const OpQuery& query) {
  ops::require_operands(query, 2);
  check_image(query, query.operands[1]);
  return pooling_rule(query, query.operands[1].shape, {true, false}, false);
}

}  // namespace

const OpDef ops::max_pool = {
    .name = "max_pool",
    .rule = max_pool_rule,
    .flops_per_point = 1,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      return {g.emit_one(max_pool_grad, {dys[0], g.operand(n, 0)}, n.attributes)};
    },
    .cpu = &cpu::max_pool,
};

// dy, x -> dx
const OpDef ops::max_pool_grad = {
    .name = "max_pool_grad",
    .rule = max_pool_grad_rule,
    .flops_per_point = 1,
    .linear = {0b01},
    .cpu = &cpu::max_pool_grad,
};

Value max_pool(Value x, PoolingOptions options) {
  const auto& [window, stride, before, after] = options;
  ops::check_pooling("max_pool", x, options);
  return recorder(x).emit_one(ops::max_pool, {x},
                              {{"window", Axes{window[0], window[1]}},
                               {"stride", Axes{stride[0], stride[1]}},
                               {"padding", ops::padding_attribute(before, after)}});
}

}  // namespace alpa
