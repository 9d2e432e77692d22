// src/ops/conv2d.cc — 2-D cross-correlation, NHWC, and its gradients. All three are bilinear, and
// gradients of each are the other two.
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "windows.h"

namespace alpa {
namespace {

/// Shapes of x [B, H, W, C], kernel [kh, kw, C / groups, F] and y [B, H', W', F].
struct Shapes {
  Shape x, kernel, y;
};

/// A rule's factors, and which dimensions of the three tensors they are.
struct Indices {
  std::vector<Factor> factors;
  DimFactors x, kernel, y;
  int batch = 0;
  int channels = -1, features = -1;  ///< -1: not to be split, as there are several groups
  std::vector<int> work;

  int add(Factor factor, bool counts) {
    factors.push_back(factor);
    const int index = static_cast<int>(factors.size()) - 1;
    if (counts) work.push_back(index);
    return index;
  }
};

/// Channels of several groups: only groups can be split, and only evenly unless each has one
/// channel and one feature.
void add_groups(Indices& all, std::int64_t groups, std::int64_t channels, std::int64_t features) {
  const bool even = channels > 1 || features > 1;
  const int group = all.add({groups, false, even}, true);
  const auto within = [&](std::int64_t extent, DimFactors& first, DimFactors& second,
                          bool in_second) {
    first.push_back({group});
    if (in_second) second.push_back({});
    if (extent == 1) return;
    const int factor = all.add({extent, true}, true);
    first.back().push_back(factor);
    if (in_second) second.back().push_back(factor);
  };
  within(channels, all.x, all.kernel, true);
  const std::size_t y = all.y.size();
  within(features, all.y, all.kernel, false);
  all.kernel.push_back(all.y[y]);
}

Indices indices(const Shapes& shapes, std::int64_t groups) {
  Indices all;
  all.batch = all.add({shapes.x[0]}, true);
  const auto whole = [&](std::int64_t extent, bool counts) {
    return std::vector<int>{all.add({extent, true}, counts)};
  };
  all.x = {{all.batch}, whole(shapes.x[1], false), whole(shapes.x[2], false)};
  all.y = {{all.batch}, whole(shapes.y[1], true), whole(shapes.y[2], true)};
  all.kernel = {whole(shapes.kernel[0], true), whole(shapes.kernel[1], true)};
  if (groups > 1) {
    add_groups(all, groups, shapes.kernel[2], shapes.y[3] / groups);
    return all;
  }
  all.channels = all.add({shapes.x[3]}, true), all.features = all.add({shapes.y[3]}, true);
  all.x.push_back({all.channels}), all.y.push_back({all.features});
  all.kernel.push_back({all.channels}), all.kernel.push_back({all.features});
  return all;
}

Rule rule_with(const OpQuery& query, Indices all, const DimFactors& first, const DimFactors& second,
               const DimFactors& result, int reduced) {
  Rule rule{.factors = std::move(all.factors),
            .operands = {first, second},
            .results = {result},
            .reduced = {{}},
            .work = {std::move(all.work)},
            .linear = query.op->linear,
            .flops_per_point = query.op->flops_per_point};
  if (reduced >= 0) rule.reduced[0].push_back({reduced});
  return rule;
}

void check_types(std::string_view op, std::span<const TensorType> types) {
  const TensorType &x = types[0], &kernel = types[1];
  if (!is_floating(x.dtype) || kernel.dtype != x.dtype)
    fail("{}: both operands must have one floating type ({}); cast them", op, to_string(types));
  if (x.rank() != 4 || kernel.rank() != 4)
    fail("{}: x must be [B, H, W, C] and the kernel [kh, kw, C / groups, F] ({})", op,
         to_string(types));
}

void check_operands(const OpQuery& query) {
  ops::require_operands(query, 2);
  check_types(query.op->name, query.operands);
}

/// The result's shape. Throws Error if channels, features and groups do not go together.
Shape result_shape(const OpQuery& query, const Shape& x, const Shape& kernel) {
  const std::int64_t groups = query.attributes.integer("groups");
  if (x[3] != kernel[2] * groups)
    fail("{}: x has {} channels but the kernel takes {} in each of {} groups ({})", query.op->name,
         x[3], kernel[2], groups, to_string(query.operands));
  if (kernel[3] % groups != 0)
    fail("{}: {} groups do not divide the kernel's {} features ({})", query.op->name, groups,
         kernel[3], to_string(query.operands));
  const Axes extents = ops::window_counts(query, {x[1], x[2]}, {kernel[0], kernel[1]});
  return {x[0], extents[0], extents[1], kernel[3]};
}

Rule conv2d_rule(const OpQuery& query) {
  check_operands(query);
  const Shape &x = query.operands[0].shape, &kernel = query.operands[1].shape;
  const Indices all =
      indices({x, kernel, result_shape(query, x, kernel)}, query.attributes.integer("groups"));
  return rule_with(query, all, all.x, all.kernel, all.y, all.channels);
}

/// Throws Error unless dy has the shape of conv2d's result.
void check_slopes(const OpQuery& query, const Shape& dy, const Shape& expected) {
  if (dy != expected)
    fail("{}: dy has shape {}, but the result has {}", query.op->name, to_string(dy),
         to_string(expected));
}

/// (dy, kernel) → dx of "extents" rows and columns.
Rule grad_x_rule(const OpQuery& query) {
  check_operands(query);
  const Shape &dy = query.operands[0].shape, &kernel = query.operands[1].shape;
  const std::int64_t groups = query.attributes.integer("groups");
  const Axes& extents = query.attributes.integers("extents");
  const Shape x{dy[0], extents.at(0), extents.at(1), kernel[2] * groups};
  check_slopes(query, dy, result_shape(query, x, kernel));
  const Indices all = indices({x, kernel, dy}, groups);
  return rule_with(query, all, all.y, all.kernel, all.x, all.features);
}

/// (x, dy) → dkernel of "extents" rows and columns.
Rule grad_kernel_rule(const OpQuery& query) {
  check_operands(query);
  const Shape &x = query.operands[0].shape, &dy = query.operands[1].shape;
  const std::int64_t groups = query.attributes.integer("groups");
  const Axes& extents = query.attributes.integers("extents");
  const Shape kernel{extents.at(0), extents.at(1), x[3] / groups, dy[3]};
  check_slopes(query, dy, result_shape(query, x, kernel));
  const Indices all = indices({x, kernel, dy}, groups);
  return rule_with(query, all, all.x, all.y, all.kernel, all.batch);
}

/// The windows' attributes, and for a gradient the extents of its result's rows and columns.
Attributes attributes_of(const Node& n, const Axes& extents = {}) {
  Attributes attributes;
  for (const char* name : {"stride", "dilation", "padding"})
    attributes.set(name, n.attributes.integers(name));
  attributes.set("groups", n.attributes.integer("groups"));
  if (!extents.empty()) attributes.set("extents", extents);
  return attributes;
}

Value gradient_of_x(const Node& n, Value dy, Value kernel, const Shape& x) {
  return recorder(dy).emit_one(ops::conv2d_grad_x, {dy, kernel}, attributes_of(n, {x[1], x[2]}));
}
Value gradient_of_kernel(const Node& n, Value x, Value dy, const Shape& kernel) {
  return recorder(dy).emit_one(ops::conv2d_grad_kernel, {x, dy},
                               attributes_of(n, {kernel[0], kernel[1]}));
}
Value correlation(const Node& n, Value x, Value kernel) {
  return recorder(x).emit_one(ops::conv2d, {x, kernel}, attributes_of(n));
}

/// Throws Error unless `op` can have these operands and options.
void check(const char* op, Value x, Value kernel, const ConvolutionOptions& o) {
  require(x && kernel, "{}: an operand is an empty Value", op);
  ops::check_windows(op, o.stride, o.pad_before, o.pad_after);
  require(o.dilation[0] >= 1 && o.dilation[1] >= 1,
          "{}: the dilation is {} x {}; both must be at least 1", op, o.dilation[0], o.dilation[1]);
  require(o.groups >= 1, "{}: {} groups; give at least 1", op, o.groups);
  check_types(op, std::array{x.type(), kernel.type()});
}

Attributes attributes_of(const ConvolutionOptions& o) {
  const auto pair = [](const std::array<std::int64_t, 2>& two) { return Axes{two[0], two[1]}; };
  return {{"stride", pair(o.stride)},
          {"dilation", pair(o.dilation)},
          {"padding", ops::padding_attribute(o.pad_before, o.pad_after)},
          {"groups", o.groups}};
}

/// A product over the channels of every pixel, which needs no windows.
bool is_product(Value kernel, const ConvolutionOptions& o) {
  constexpr std::array<std::int64_t, 2> one = {1, 1}, none = {0, 0};
  return kernel.dim(0) == 1 && kernel.dim(1) == 1 && o.groups == 1 && o.stride == one &&
         o.pad_before == none && o.pad_after == none;
}

}  // namespace

const OpDef ops::conv2d = {
    .name = "conv2d",
    .rule = conv2d_rule,
    .flops_per_point = 2,
    .linear = {0b01, 0b10},
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      const Value x = g.operand(n, 0), kernel = g.operand(n, 1);
      return {gradient_of_x(n, dys[0], kernel, x.shape()),
              gradient_of_kernel(n, x, dys[0], kernel.shape())};
    },
    .work = Work::heavy,
    .cpu = &cpu::conv2d,
};

const OpDef ops::conv2d_grad_x = {
    .name = "conv2d_grad_x",
    .rule = grad_x_rule,
    .flops_per_point = 2,
    .linear = {0b01, 0b10},
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      const Value dy = g.operand(n, 0), kernel = g.operand(n, 1);
      return {correlation(n, dys[0], kernel), gradient_of_kernel(n, dys[0], dy, kernel.shape())};
    },
    .work = Work::heavy,
    .cpu = &cpu::conv2d_grad_x,
};

const OpDef ops::conv2d_grad_kernel = {
    .name = "conv2d_grad_kernel",
    .rule = grad_kernel_rule,
    .flops_per_point = 2,
    .linear = {0b01, 0b10},
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      const Value x = g.operand(n, 0), dy = g.operand(n, 1);
      return {gradient_of_x(n, dy, dys[0], x.shape()), correlation(n, x, dys[0])};
    },
    .work = Work::heavy,
    .chunked = ChunkedSum::rows,
    .cpu = &cpu::conv2d_grad_kernel,
};

Value conv2d(Value x, Value kernel, ConvolutionOptions options) {
  check("conv2d", x, kernel, options);
  if (is_product(kernel, options) && x.dim(3) == kernel.dim(2))
    return matmul(x, reshape(kernel, {kernel.dim(2), kernel.dim(3)}));
  return recorder(x).emit_one(ops::conv2d, {x, kernel}, attributes_of(options));
}

Value conv2d_transpose(Value x, Value kernel, ConvolutionOptions options,
                       std::array<std::int64_t, 2> output_padding) {
  const char* const op = "conv2d_transpose";
  check(op, x, kernel, options);
  require(x.dim(3) == kernel.dim(3),
          "{}: x has {} channels but the kernel takes {} (x {}, kernel {}); kernels are "
          "[kh, kw, C / groups, channels of x]",
          op, x.dim(3), kernel.dim(3), to_string(x.type()), to_string(kernel.type()));
  Axes extents;
  for (int d = 0; d < 2; ++d) {
    require(output_padding[d] >= 0 && output_padding[d] < options.stride[d],
            "{}: an output padding of {} with stride {}; give 0 or more, and less than the stride",
            op, output_padding[d], options.stride[d]);
    extents.push_back((x.dim(1 + d) - 1) * options.stride[d] - options.pad_before[d] -
                      options.pad_after[d] + options.dilation[d] * (kernel.dim(d) - 1) + 1 +
                      output_padding[d]);
    require(extents[d] >= 1, "{}: x {} and kernel {} leave no {} beside the padding", op,
            to_string(x.type()), to_string(kernel.type()), d == 0 ? "row" : "column");
  }
  Attributes attributes = attributes_of(options);
  attributes.set("extents", extents);
  return recorder(x).emit_one(ops::conv2d_grad_x, {x, kernel}, std::move(attributes));
}

Value upsample(Value x, std::array<std::int64_t, 2> factor) {
  require(x && x.rank() == 4 && factor[0] >= 1 && factor[1] >= 1,
          "upsample: x is {} and the factors are {} x {}; x must be [B, H, W, C], the factors at "
          "least 1",
          x ? to_string(x.type()) : "an empty Value", factor[0], factor[1]);
  const std::int64_t b = x.dim(0), h = x.dim(1), w = x.dim(2), c = x.dim(3);
  const Value each = reshape(x, {b, h, 1, w, 1, c});
  return reshape(broadcast_to(each, {b, h, factor[0], w, factor[1], c}),
                 {b, h * factor[0], w * factor[1], c});
}

}  // namespace alpa
