// src/import/patterns.cc — patterns → operators
#include "src/import/patterns.h"

#include "alpa/ops/ops.h"
#include "src/import/emit.h"
#include "src/import/match.h"
#include "src/ops/all_ops.h"

namespace alpa::stablehlo {
namespace {

using Pattern = bool (*)(Matching& m, FlatOperation& operation);

constexpr Pattern kPatterns[] = {match_cross_entropy, match_attention, match_norm, match_activation,
                                 match_dropout};

Matching matching_of(FlatFunction flat) {
  Matching m{.flat = std::move(flat), .uses = {}, .found = {}};
  m.uses.resize(m.flat.values.size());
  for (const FlatOperation& operation : m.flat.operations)
    for (int v : operation.operands) ++m.uses[static_cast<std::size_t>(v)];
  for (int v : m.flat.results) ++m.uses[static_cast<std::size_t>(v)];
  return m;
}

bool is_read(const Matching& m, const FlatOperation& operation) {
  for (int result : operation.results)
    if (m.uses[static_cast<std::size_t>(result)] > 0) return true;
  return false;
}

/// Lookups of rows of a table, and their gradient, need no change: the table of kinds makes them
/// alpa's operators.
const char* lookup_name(const Matching& m, const FlatOperation& operation) {
  const bool gather = operation.kind == "stablehlo.gather";
  if ((!gather && operation.kind != "stablehlo.scatter") || m.known(operation.operands.at(1)) ||
      m.rank(operation.operands[0]) != 2)
    return nullptr;
  const Attribute& numbers =
      operation.source->attribute(gather ? "dimension_numbers" : "scatter_dimension_numbers");
  const std::vector<std::int64_t> rows = {0};
  if (field(numbers, gather ? "collapsed_slice_dims" : "inserted_window_dims") != rows)
    return nullptr;
  return gather ? "embedding" : "embedding_gradient";
}

// ---- the operators

Values emit_sigmoid(const Call& call) { return {sigmoid(call.in[0])}; }
Values emit_gelu(const Call& call) { return {gelu(call.in[0])}; }
Values emit_exact_gelu(const Call& call) { return {exact_gelu(call.in[0])}; }

Values emit_dropout(const Call& call) { return {dropout(call.in[0], call.op.numbers[0])}; }
Values emit_random_uniform(const Call& call) {
  return {random_uniform(call.graph, call.result_type(), call.op.numbers[0], call.op.numbers[1])};
}

Value channels(Value x, Value like) { return cast(reshape(x, {like.dim(-1)}), like.dtype()); }

Values emit_layer_norm(const Call& call) {
  const Value x = call.in[0], scale = channels(call.in[1], x),
              bias = call.in.size() > 2 ? channels(call.in[2], x)
                                        : constant(call.graph, 0, x.dtype(), {x.dim(-1)});
  return {cast(layer_norm(x, scale, bias, call.op.numbers[0]), call.result_type().dtype)};
}

Values emit_rms_norm(const Call& call) {
  const Value x = call.in[0];
  return {cast(rms_norm(x, channels(call.in[1], x), call.op.numbers[0]), call.result_type().dtype)};
}

Values emit_cross_entropy(const Call& call) {
  const Value x = call.in[0];
  const Value ids = reshape(call.in[1], Shape(x.shape().begin(), x.shape().end() - 1));
  Value loss = cast(softmax_cross_entropy(x, ids), call.result_type().dtype);
  if (call.op.numbers[1] == 1) loss = where(ge(ids, 0), where(lt(ids, x.dim(-1)), loss, 0), 0);
  return {reshape(call.op.numbers[0] < 0 ? -loss : loss, call.result().shape)};
}

/// An operand as [B, T, H, D].
Value in_order(const Call& call, std::size_t i, DType dtype) {
  const std::vector<int>& order = call.op.dims[i];
  const Value x = transpose(call.in[i], Axes(order.begin(), order.end()));
  const Value heads = order.size() == 4 ? x : reshape(x, {x.dim(0), x.dim(1), 1, x.dim(2)});
  return cast(heads, dtype);
}

/// Operands in order of their dims, then those without: the sums of rows, and a mask of keys.
Values attention_operands(const Call& call, std::size_t ordered, std::size_t others) {
  const DType dtype = call.in[ordered > 3 ? 1 : 0].dtype();
  Values operands;
  for (std::size_t i = 0; i < ordered; ++i) operands.push_back(in_order(call, i, dtype));
  for (std::size_t i = ordered; i < call.in.size(); ++i) operands.push_back(call.in[i]);
  const Value k = operands[ordered > 3 ? 2 : 1];
  if (operands.size() > others) operands.back() = reshape(operands.back(), {k.dim(0), k.dim(1)});
  return operands;
}

Attributes attention_attributes(const Call& call) {
  return {{"causal", static_cast<std::int64_t>(call.op.numbers[1])},
          {"scale", call.op.numbers[0]},
          {"dropout", 0.0}};
}

/// [B, T, H, D] in this order of dimensions, as result `i`.
Value put_back(const Call& call, Value x, const std::vector<int>& order, std::size_t i) {
  const Value heads = order.size() == 4 ? x : reshape(x, {x.dim(0), x.dim(1), x.dim(3)});
  return cast(transpose(heads, inverse(Axes(order.begin(), order.end()))),
              call.result_type(i).dtype);
}

/// `match_attention` says what numbers and dims are.
Values emit_attention(const Call& call) {
  Values found =
      call.graph.emit(ops::attention, attention_operands(call, 3, 3), attention_attributes(call));
  found[0] = put_back(call, found[0], call.op.dims[3], 0);
  found.resize(call.op.results.size());
  return found;
}

Values emit_attention_gradient(const Call& call) {
  Values found = call.graph.emit(ops::attention_grad, attention_operands(call, 5, 6),
                                 attention_attributes(call));
  for (std::size_t i = 0; i < found.size(); ++i)
    found[i] = put_back(call, found[i], call.op.dims[5 + i], i);
  return found;
}

}  // namespace

FlatFunction with_patterns(FlatFunction flat, std::vector<std::string>& found) {
  Matching m = matching_of(std::move(flat));
  for (auto operation = m.flat.operations.rbegin(); operation != m.flat.operations.rend();
       ++operation) {
    if (!is_read(m, *operation) || operation->results.size() != 1) continue;
    for (Pattern pattern : kPatterns)
      if (pattern(m, *operation)) break;
    if (const char* const name = lookup_name(m, *operation)) m.found.emplace_back(name);
  }
  found = std::move(m.found);
  prune(m.flat);
  for (const FlatOperation& operation : m.flat.operations)
    if (operation.kind == "alpa.random_uniform") found.emplace_back("random_uniform");
  return std::move(m.flat);
}

std::vector<Row> pattern_rows() {
  return {
      {"alpa.sigmoid", emit_sigmoid},       {"alpa.gelu", emit_gelu},
      {"alpa.exact_gelu", emit_exact_gelu}, {"alpa.layer_norm", emit_layer_norm},
      {"alpa.rms_norm", emit_rms_norm},     {"alpa.cross_entropy", emit_cross_entropy},
      {"alpa.attention", emit_attention},   {"alpa.attention_gradient", emit_attention_gradient},
      {"alpa.dropout", emit_dropout},       {"alpa.random_uniform", emit_random_uniform}};
}

}  // namespace alpa::stablehlo
