#pragma once
/// From operations of a flat function to nodes of a graph: one table, a function over Values for
/// each kind.
#include <string_view>

#include "src/import/flat.h"
#include "src/ir/recorder.h"

namespace alpa::stablehlo {

/// One operation that is recorded.
struct Call {
  Recorder& graph;
  const FlatFunction& function;
  const FlatOperation& op;
  Values in;  ///< operands

  const Operation& source() const { return *op.source; }
  const FlatValue& operand(std::size_t i) const {
    return function.values[static_cast<std::size_t>(op.operands.at(i))];
  }
  const Type& result(std::size_t i = 0) const {
    return function.values[static_cast<std::size_t>(op.results.at(i))].type;
  }
  TensorType result_type(std::size_t i = 0) const { return tensor_type(result(i), source().place); }
  std::optional<double> known(std::size_t i) const { return operand(i).known; }
  /// Throws Error that names place and kind.
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    fail_at(source().place, "\"{}\": {}", op.kind,
            fmt::format(format, std::forward<Args>(args)...));
  }
};

using Emit = Values (*)(const Call& call);

/// A kind and how it is recorded.
struct Row {
  std::string_view kind;
  Emit emit;
  std::size_t operands = 0;  ///< 0: `emit` checks their number
};

/// Rows by subject; `kinds` in emit.cc joins them.
std::vector<Row> elementwise_rows();
std::vector<Row> shape_rows();    ///< movement: broadcasts, slices, pads, …
std::vector<Row> product_rows();  ///< dot_general and reductions
std::vector<Row> lookup_rows();   ///< gather and scatter
std::vector<Row> window_rows();   ///< convolution, reduce_window and its gradient
std::vector<Row> pattern_rows();  ///< what patterns.h makes

/// The results of `function` for these arguments, as nodes of their graph.
Values record(Recorder& graph, const FlatFunction& function, const Values& arguments);

// ---- shared by rows
/// The order that puts dimensions back which were put into `order`.
std::vector<std::int64_t> inverse(const std::vector<std::int64_t>& order);
/// x with dimension d of the result being d of x, or a new one; dims: `broadcast_in_dim`'s.
Value broadcast(Value x, const Shape& shape, const std::vector<std::int64_t>& dims);
/// x without `before` and `after` elements where they are negative, with `value` where positive,
/// and `interior` more between each two.
Value resized(Recorder& graph, Value x, std::int64_t axis, std::int64_t before, std::int64_t after,
              std::int64_t interior, double value);
/// Elements of dimension `axis` in reverse order.
Value reversed(Value x, std::int64_t axis);
/// The kind of the one operation in a reduction's or scatter's block; "": another block. "return"
/// where the block gives its second argument back.
std::string_view combiner(const Operation& operation);
std::string_view combiner(const Block& block);

// ---- operators of bits, which alpa lacks: ui32 as i32
/// x `what` y: add, sub, mul, div, rem, and, or, xor, shl, shr; lt, le, gt and ge, which give u8.
Value bits(std::string_view what, Value x, Value y);
/// "f32": ui32 to f32; "as_f32", "as_i32": the same bits.
Value bits_as(std::string_view what, Value x);
/// A tensor of these elements.
Value literal(Recorder& graph, const std::vector<double>& values, const TensorType& type);

}  // namespace alpa::stablehlo
