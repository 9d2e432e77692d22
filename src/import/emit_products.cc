// src/import/emit_products.cc — dot_general and reductions
#include <algorithm>
#include <limits>

#include "alpa/base/text.h"
#include "alpa/ops/ops.h"
#include "src/import/emit.h"

namespace alpa::stablehlo {
namespace {

using Integers = std::vector<std::int64_t>;

/// A letter of an equation for each dimension of both operands.
struct Letters {
  std::string x, y, result;
};

Letters letters_of(const Call& call) {
  const Attribute& dims = call.source().attribute("dot_dimension_numbers");
  const Integers batch[2] = {field(dims, "lhs_batching_dimensions"),
                             field(dims, "rhs_batching_dimensions")},
                 summed[2] = {field(dims, "lhs_contracting_dimensions"),
                              field(dims, "rhs_contracting_dimensions")};
  std::string letters[2];
  for (int i : {0, 1})
    letters[i] = std::string(call.in[static_cast<std::size_t>(i)].shape().size(), '?');
  if (letters[0].size() + letters[1].size() > 26) call.fail("too many dimensions");
  char next = 'a';
  std::string result;
  const auto pair = [&](const Integers& x, const Integers& y) {
    if (x.size() != y.size())
      call.fail("{} dimensions of one operand meet {} of the other", x.size(), y.size());
    for (std::size_t i = 0; i < x.size(); ++i, ++next)
      for (auto [text, d] : {std::pair(&letters[0], x[i]), std::pair(&letters[1], y[i])}) {
        if (d < 0 || d >= static_cast<std::int64_t>(text->size()) ||
            (*text)[static_cast<std::size_t>(d)] != '?')
          call.fail("dimension {} is named twice or does not exist", d);
        (*text)[static_cast<std::size_t>(d)] = next;
      }
  };
  pair(batch[0], batch[1]);
  for (char c = 'a'; c < next; ++c) result += c;
  pair(summed[0], summed[1]);
  for (std::string& text : letters)
    for (char& c : text)
      if (c == '?') result += c = next++;
  return {letters[0], letters[1], result};
}

Values dot_general(const Call& call) {
  const auto [x, y, result] = letters_of(call);
  const DType to = call.result_type().dtype;
  if (!is_floating(to)) call.fail("of whole numbers is not supported; convert them to f32");
  return {einsum(x + "," + y + "->" + result, cast(call.in[0], to), cast(call.in[1], to))};
}

Value largest_of_masks(Value x, const Axes& axes) { return ne(max(cast(x, f32), axes), 0); }

/// Products along a dimension, of both halves again and again.
Value product_along(Value x, std::int64_t axis) {
  for (std::int64_t n = x.dim(axis); n > 1; n = x.dim(axis)) {
    const std::int64_t half = n / 2;
    const Value y = slice(x, axis, 0, half) * slice(x, axis, half, 2 * half);
    x = n % 2 == 0 ? y : concatenate({y, slice(x, axis, n - 1, n)}, axis);
  }
  return x;
}

Value product(Value x, const Axes& axes) {
  Shape shape;
  for (std::int64_t d = 0; d < x.type().rank(); ++d)
    if (std::ranges::count(axes, d) == 0) shape.push_back(x.dim(d));
  for (std::int64_t axis : axes) x = product_along(x, axis);
  return reshape(x, shape);
}

Value reduced(const Call& call, std::string_view kind, Value x, const Axes& axes) {
  const bool mask = call.operand(0).type.is_mask();
  if (mask && axes.empty()) return x;
  if (mask && (kind == "stablehlo.or" || kind == "stablehlo.maximum"))
    return largest_of_masks(x, axes);
  if (mask && (kind == "stablehlo.and" || kind == "stablehlo.minimum"))
    return eq(largest_of_masks(eq(x, 0), axes), 0);
  if (kind == "stablehlo.add") return axes.empty() ? x : sum(x, axes);
  if (call.operand(0).type.is_unsigned())
    call.fail("of unsigned numbers is not supported; use i32");
  if (kind == "stablehlo.multiply" && !mask) return product(x, axes);
  if (kind == "stablehlo.maximum") return axes.empty() ? x : max(x, axes);
  if (kind == "stablehlo.minimum") return axes.empty() ? x : -max(-x, axes);
  call.fail("by {} is not supported, only by add, multiply, maximum, minimum, and, or",
            kind.empty() ? "a block of several operations" : excerpt(kind));
}

/// What changes nothing as the start of a reduction.
double neutral(std::string_view kind, const Type& type) {
  const bool whole = !is_floating(tensor_type(type, {}).dtype);
  const double most = type.is_mask() ? 1
                      : whole        ? std::numeric_limits<std::int32_t>::max()
                                     : std::numeric_limits<double>::infinity(),
               least = type.is_mask() ? 0
                       : whole        ? std::numeric_limits<std::int32_t>::min()
                                      : -most;
  if (kind == "stablehlo.maximum") return least;
  if (kind == "stablehlo.minimum") return most;
  return kind == "stablehlo.and" || kind == "stablehlo.multiply" ? 1 : 0;
}

/// A reduction's result and its start.
Value joined(const Call& call, std::string_view kind, Value x, Value start) {
  const Value y = broadcast_to(start, x.shape());
  if (kind == "stablehlo.add") return x + y;
  if (kind == "stablehlo.multiply") return x * y;
  const bool largest = kind == "stablehlo.maximum" || kind == "stablehlo.or";
  if (call.operand(0).type.is_mask()) return largest ? where(x, 1, y) : where(x, y, 0);
  return largest ? maximum(x, y) : minimum(x, y);
}

/// argmax and argmin are reductions of values and positions together: how they compare, "GT" or
/// "LT"; "": another reduction.
std::string_view comparison_of(const Call& call) {
  if (call.in.size() != 4 || call.source().blocks.size() != 1) return "";
  for (const Operation& operation : call.source().blocks[0].operations)
    if (operation.kind == "stablehlo.compare")
      return operation.attribute("comparison_direction").text;
  return "";
}

Values reduce(const Call& call) {
  const Axes axes = call.source().integers("dimensions");
  const std::string_view order = axes.size() == 1 ? comparison_of(call) : "";
  if (order.starts_with("G")) return {max(call.in[0], axes), argmax(call.in[0], axes[0])};
  if (order.starts_with("L")) return {-max(-call.in[0], axes), argmax(-call.in[0], axes[0])};
  if (call.in.size() != 2)
    call.fail("of several tensors together is not supported, but for argmax and argmin");
  const std::string_view kind = combiner(call.source());
  const Value found = reduced(call, kind, call.in[0], axes);
  if (call.known(1) == neutral(kind, call.operand(0).type)) return {found};
  return {joined(call, kind, found, call.in[1])};
}

}  // namespace

std::string_view combiner(const Operation& operation) {
  return operation.blocks.size() == 1 ? combiner(operation.blocks[0]) : "";
}

std::string_view combiner(const Block& block) {
  if (block.arguments.size() != 2) return "";
  if (block.operations.size() == 1 && block.operations[0].operands.size() == 1 &&
      block.operations[0].operands[0] == block.arguments[1])
    return "return";
  if (block.operations.size() != 2 || block.operations[0].operands.size() != 2) return "";
  Integers read(block.operations[0].operands.begin(), block.operations[0].operands.end());
  std::ranges::sort(read);
  if (read != Integers{block.arguments[0], block.arguments[1]}) return "";
  return block.operations[0].kind;
}

std::vector<Row> product_rows() {
  return {{"stablehlo.dot_general", dot_general, 2}, {"stablehlo.reduce", reduce}};
}

}  // namespace alpa::stablehlo
