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
  call.expect(2);
  const auto [x, y, result] = letters_of(call);
  const DType to = call.result_type().dtype;
  if (!is_floating(to)) call.fail("of whole numbers is not supported; convert them to f32");
  return {einsum(x + "," + y + "->" + result, cast(call.in[0], to), cast(call.in[1], to))};
}

/// Whether `start` changes nothing.
bool is_neutral(std::string_view kind, std::optional<double> start) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!start) return false;
  if (kind == "stablehlo.add" || kind == "stablehlo.or") return *start == 0;
  if (kind == "stablehlo.maximum") return *start == -kInfinity || *start <= -2147483648.0;
  if (kind == "stablehlo.minimum") return *start == kInfinity || *start >= 2147483647.0;
  return *start == 1;
}

Value largest_of_masks(Value x, const Axes& axes) { return ne(max(cast(x, f32), axes), 0); }

Value reduced(const Call& call, std::string_view kind, Value x, const Axes& axes) {
  const bool mask = call.operand(0).type.is_mask();
  if (mask && (kind == "stablehlo.or" || kind == "stablehlo.maximum"))
    return largest_of_masks(x, axes);
  if (mask && (kind == "stablehlo.and" || kind == "stablehlo.minimum"))
    return eq(largest_of_masks(eq(x, 0), axes), 0);
  if (kind == "stablehlo.add") return sum(x, axes);
  if (kind == "stablehlo.maximum") return max(x, axes);
  if (kind == "stablehlo.minimum") return -max(-x, axes);
  call.fail("by {} is not supported, only by add, maximum, minimum, and, or",
            kind.empty() ? "a block of several operations" : excerpt(kind));
}

/// argmax is a reduction of values and positions together.
bool is_argmax(const Call& call) {
  if (call.in.size() != 4 || call.source().blocks.size() != 1) return false;
  for (const Operation& operation : call.source().blocks[0].operations)
    if (operation.kind == "stablehlo.compare") {
      const std::string& how = operation.attribute("comparison_direction").text;
      return how == "GT" || how == "GE";
    }
  return false;
}

Values reduce(const Call& call) {
  const Axes axes = call.source().integers("dimensions");
  if (is_argmax(call) && axes.size() == 1)
    return {max(call.in[0], axes), argmax(call.in[0], axes[0])};
  if (call.in.size() != 2)
    call.fail("of several tensors together is not supported, but for argmax");
  const std::string_view kind = combiner(call.source());
  if (!is_neutral(kind, call.known(1))) call.fail("from another start than the usual one");
  return {axes.empty() ? call.in[0] : reduced(call, kind, call.in[0], axes)};
}

}  // namespace

std::string_view combiner(const Operation& operation) {
  if (operation.blocks.size() != 1) return "";
  const Block& block = operation.blocks[0];
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
  return {{"stablehlo.dot_general", dot_general}, {"stablehlo.reduce", reduce}};
}

}  // namespace alpa::stablehlo
