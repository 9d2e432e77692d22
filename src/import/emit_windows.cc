// src/import/emit_windows.cc — convolutions in any order of dimensions, and pooling
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <sstream>

#include "alpa/base/text.h"
#include "alpa/ops/ops.h"
#include "src/import/emit.h"
#include "src/ops/all_ops.h"

namespace alpa::stablehlo {
namespace {

using Integers = std::vector<std::int64_t>;
using Two = std::array<std::int64_t, 2>;

/// A list of `n` numbers; a splat, or an absent one, has `n` times the same.
Integers numbers_or(const Call& call, std::string_view name, std::size_t n,
                    std::int64_t otherwise) {
  const Attribute* const found = call.source().find(name);
  if (!found) return Integers(n, otherwise);
  Integers list = whole_numbers(*found);
  if (list.size() == 1) list.resize(n, list[0]);
  if (list.size() != n) call.fail("{} has {} numbers, not {}", name, list.size(), n);
  return list;
}

/// Positions of "b", "0", "1", "f" among the dimensions.
Axes order_of(const Call& call, const Attribute& dims, const std::vector<std::string>& letters) {
  std::vector<std::string> found;
  std::istringstream text(dims.text);
  for (std::string word; text >> word;) found.push_back(word);
  Axes order;
  for (const std::string& letter : letters) {
    const auto place = std::ranges::find(found, letter);
    if (place == found.end() || found.size() != letters.size())
      call.fail("dimensions [{}] without {}, or with others", excerpt(dims.text), letter);
    order.push_back(place - found.begin());
  }
  return order;
}

/// The windows of a convolution, two dimensions of them: a missing one has extent 1.
struct Windows {
  Two stride{1, 1}, dilation{1, 1}, interior{0, 0}, before{0, 0}, after{0, 0};
  std::array<bool, 2> reversed{};
};

Windows windows_of(const Call& call, std::size_t n) {
  const Integers stride = numbers_or(call, "window_strides", n, 1),
                 base = numbers_or(call, "lhs_dilation", n, 1),
                 dilation = numbers_or(call, "rhs_dilation", n, 1),
                 padding = numbers_or(call, "padding", 2 * n, 0),
                 reversal = numbers_or(call, "window_reversal", n, 0);
  Windows w;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t to = 2 - n + i;
    w.stride[to] = stride[i], w.dilation[to] = dilation[i], w.interior[to] = base[i] - 1;
    w.before[to] = padding[2 * i], w.after[to] = padding[2 * i + 1];
    w.reversed[to] = reversal[i] != 0;
  }
  return w;
}

/// x [B, H, W, C] with zeros between its elements, without those that negative padding cuts off.
/// `w` then has what remains.
Value spread(Recorder& graph, Value x, Windows& w) {
  for (std::size_t i : {0, 1}) {
    const Two cut = {std::min<std::int64_t>(w.before[i], 0), std::min<std::int64_t>(w.after[i], 0)};
    x = resized(graph, x, static_cast<std::int64_t>(i) + 1, cut[0], cut[1], w.interior[i], 0);
    w.before[i] -= cut[0], w.after[i] -= cut[1];
  }
  return x;
}

Values convolution(const Call& call) {
  const Attribute& dims = call.source().attribute("dimension_numbers");
  const std::size_t rank = call.in[0].shape().size(), n = rank - 2;
  if (dims.fields.size() != 3 || (rank != 3 && rank != 4) || call.in[1].shape().size() != rank)
    call.fail("of {} is not supported, only over one or two dimensions",
              to_string(call.operand(0).type));
  if (call.source().find("batch_group_count") && call.source().integer("batch_group_count") != 1)
    call.fail(
        "with batch_group_count is not supported, as the gradient of grouped ones has it; "
        "import the loss, which alpa differentiates");
  std::vector<std::string> places;
  for (std::size_t i = 0; i < n; ++i) places.push_back(std::to_string(i));
  const auto letters = [&](const char* first, const char* last, bool last_two) {
    std::vector<std::string> all = places;
    if (last_two)
      all.push_back(first);
    else
      all.insert(all.begin(), first);
    all.push_back(last);
    return all;
  };
  Value x = transpose(call.in[0], order_of(call, dims.fields[0].second, letters("b", "f", false)));
  Value kernel =
      transpose(call.in[1], order_of(call, dims.fields[1].second, letters("i", "o", true)));
  const Axes out = order_of(call, dims.fields[2].second, letters("b", "f", false));
  if (n == 1) {
    x = reshape(x, {x.dim(0), 1, x.dim(1), x.dim(2)});
    kernel = reshape(kernel, {1, kernel.dim(0), kernel.dim(1), kernel.dim(2)});
  }
  Windows w = windows_of(call, n);
  for (std::size_t i : {0, 1})
    if (w.reversed[i]) kernel = reversed(kernel, static_cast<std::int64_t>(i));
  x = spread(call.graph, x, w);
  const Value y = conv2d(x, kernel,
                         {.stride = w.stride,
                          .dilation = w.dilation,
                          .pad_before = w.before,
                          .pad_after = w.after,
                          .groups = call.source().find("feature_group_count")
                                        ? call.source().integer("feature_group_count")
                                        : 1});
  const Value squeezed = n == 1 ? reshape(y, {y.dim(0), y.dim(2), y.dim(3)}) : y;
  return {transpose(squeezed, inverse(out))};
}

/// Pooling whose windows are along at most two dimensions.
struct Pooling {
  Axes order;               ///< dimensions without windows but for the last, those with, that last
  std::size_t windows = 0;  ///< dimensions with windows
  PoolingOptions options;

  /// As [B, H, W, C].
  Value images(Value x) const {
    const Value y = transpose(x, order);
    const std::size_t channels = order.size() > windows ? 1 : 0,
                      batch = order.size() - windows - channels;
    Shape shape = {1, 1, 1, channels > 0 ? y.shape().back() : 1};
    for (std::size_t d = 0; d < batch + windows; ++d)
      shape[d < batch ? 0 : d - batch + 1] *= y.shape()[d];
    return reshape(y, shape);
  }
  /// Images as the result of this shape.
  Value result(Value images, const Shape& shape) const {
    Shape ordered;
    for (std::int64_t d : order) ordered.push_back(shape[static_cast<std::size_t>(d)]);
    return transpose(reshape(images, ordered), inverse(order));
  }
};

Pooling pooling_of(const Call& call) {
  const std::size_t rank = call.in[0].shape().size();
  if (call.result().shape.size() != rank) call.fail("gives {}", to_string(call.result()));
  const Integers window = numbers_or(call, "window_dimensions", rank, 1),
                 stride = numbers_or(call, "window_strides", rank, 1),
                 padding = numbers_or(call, "padding", 2 * rank, 0);
  for (const char* name : {"base_dilations", "window_dilations"})
    if (numbers_or(call, name, rank, 1) != Integers(rank, 1))
      call.fail("with {} is not supported", name);
  Axes moving, still;
  for (std::size_t d = 0; d < rank; ++d) {
    const bool moves =
        window[d] != 1 || stride[d] != 1 || padding[2 * d] != 0 || padding[2 * d + 1] != 0;
    (moves ? moving : still).push_back(static_cast<std::int64_t>(d));
  }
  if (moving.size() > 2)
    call.fail("over {} dimensions is not supported, only over two", moving.size());
  Pooling p{
      .order = still, .windows = moving.size(), .options = {.window = {1, 1}, .stride = {1, 1}}};
  p.order.insert(p.order.end() - (still.empty() ? 0 : 1), moving.begin(), moving.end());
  for (std::size_t i = 0; i < moving.size(); ++i) {
    const auto d = static_cast<std::size_t>(moving[i]);
    p.options.window[i] = window[d], p.options.stride[i] = stride[d];
    p.options.pad_before[i] = padding[2 * d], p.options.pad_after[i] = padding[2 * d + 1];
  }
  return p;
}

Value sums_of_windows(const Call& call, Value x, PoolingOptions options) {
  for (std::size_t i : {0, 1})
    x = resized(call.graph, x, static_cast<std::int64_t>(i) + 1,
                std::exchange(options.pad_before[i], 0), std::exchange(options.pad_after[i], 0), 0,
                0);
  return average_pool(x, options) * static_cast<double>(options.window[0] * options.window[1]);
}

/// Sums of windows that reach back to the first element, or on to the last one: jnp.cumsum.
std::optional<Values> running_sums(const Call& call) {
  const Shape& shape = call.in[0].shape();
  const Integers window = numbers_or(call, "window_dimensions", shape.size(), 1),
                 padding = numbers_or(call, "padding", 2 * shape.size(), 0);
  std::int64_t axis = -1;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (window[d] != 1) {
      if (axis >= 0 || window[d] != shape[d]) return std::nullopt;
      axis = static_cast<std::int64_t>(d);
    }
  if (axis < 0) return std::nullopt;
  const auto at = static_cast<std::size_t>(axis);
  const bool forward = padding[2 * at + 1] == 0;
  Integers expected(padding.size(), 0);
  expected[2 * at + (forward ? 0 : 1)] = shape[at] - 1;
  if (padding != expected || call.result().shape != shape) return std::nullopt;
  return Values{cumulative_sum(call.in[0], axis, false, !forward)};
}

Values reduce_window(const Call& call) {
  if (call.in.size() != 2) call.fail("of several tensors together is not supported");
  const std::string_view kind = combiner(call.source());
  if (kind == "stablehlo.add" && call.known(1) == 0.0)
    if (const auto sums = running_sums(call)) return *sums;
  const bool largest =
      kind == "stablehlo.maximum" && call.known(1) == -std::numeric_limits<double>::infinity();
  if (!largest && (kind != "stablehlo.add" || call.known(1) != 0.0))
    call.fail("by {} is not supported, only by maximum from -inf, or add from 0",
              kind.empty() ? "a block of several operations" : excerpt(kind));
  const Pooling p = pooling_of(call);
  if (p.windows == 0) return {call.in[0]};
  const Value x = p.images(call.in[0]),
              y = largest ? max_pool(x, p.options) : sums_of_windows(call, x, p.options);
  return {p.result(y, call.result().shape)};
}

/// The gradient of max pooling, as jax writes it.
Values select_and_scatter(const Call& call) {
  const std::vector<Block>& blocks = call.source().blocks;
  if (call.in.size() != 3 || call.known(2) != 0.0) call.fail("from another start than 0");
  if (blocks.size() != 2 || combiner(blocks[0]) != "stablehlo.compare" ||
      blocks[0].operations[0].attribute("comparison_direction").text != "GE" ||
      combiner(blocks[1]) != "stablehlo.add")
    call.fail("is supported only as the gradient of max pooling: selected by GE, added up");
  const Pooling p = pooling_of(call);
  const Value x = p.images(call.in[0]), dy = p.images(call.in[1]);
  const auto& [window, stride, before, after] = p.options;
  const Value found =
      call.graph.emit_one(ops::max_pool_grad, {dy, x},
                          {{"window", Axes{window[0], window[1]}},
                           {"stride", Axes{stride[0], stride[1]}},
                           {"padding", Axes{before[0], after[0], before[1], after[1]}}});
  return {p.result(found, call.result().shape)};
}

}  // namespace

std::vector<Row> window_rows() {
  return {{"stablehlo.convolution", convolution, 2},
          {"stablehlo.reduce_window", reduce_window},
          {"stablehlo.select_and_scatter", select_and_scatter}};
}

}  // namespace alpa::stablehlo
