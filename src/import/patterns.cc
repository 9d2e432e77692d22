// src/import/patterns.cc — patterns → operators
#include "src/import/patterns.h"

#include "alpa/ops/ops.h"
#include "src/import/emit.h"
#include "src/import/match.h"

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
  return {
      reshape(cast(softmax_cross_entropy(x, ids), call.result_type().dtype), call.result().shape)};
}

/// An operand as [B, T, H, D].
Value in_order(const Call& call, std::size_t i, DType dtype) {
  const std::vector<int>& order = call.op.dims[i];
  const Value x = transpose(call.in[i], Axes(order.begin(), order.end()));
  const Value heads = order.size() == 4 ? x : reshape(x, {x.dim(0), x.dim(1), 1, x.dim(2)});
  return cast(heads, dtype);
}

/// `match_attention` says what numbers and dims are.
Values emit_attention(const Call& call) {
  const std::vector<double>& numbers = call.op.numbers;
  const DType dtype = call.in[0].dtype();
  AttentionOptions options{.causal = numbers[1] != 0, .scale = numbers[0]};
  if (call.in.size() > 3) options.key_mask = call.in[3];
  if (options.key_mask) {
    const Value q = in_order(call, 0, dtype), k = in_order(call, 1, dtype);
    options.key_mask = reshape(options.key_mask, {q.dim(0), k.dim(1)});
  }
  const Value y = attention(in_order(call, 0, dtype), in_order(call, 1, dtype),
                            in_order(call, 2, dtype), options);
  const bool swapped = numbers[2] != 0, rows_first = numbers[3] != 0;
  const std::int64_t row = rows_first ? 1 : 3, width = rows_first ? 3 : 1;
  const Value found = call.op.dims[0].size() == 4
                          ? transpose(y, {swapped ? 2 : 0, swapped ? 0 : 2, row, width})
                          : transpose(reshape(y, {y.dim(0), y.dim(1), y.dim(3)}),
                                      rows_first ? Axes{0, 1, 2} : Axes{0, 2, 1});
  return {cast(found, call.result_type().dtype)};
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
  return {{"alpa.sigmoid", emit_sigmoid},
          {"alpa.gelu", emit_gelu},
          {"alpa.exact_gelu", emit_exact_gelu},
          {"alpa.layer_norm", emit_layer_norm},
          {"alpa.rms_norm", emit_rms_norm},
          {"alpa.cross_entropy", emit_cross_entropy},
          {"alpa.attention", emit_attention},
          {"alpa.dropout", emit_dropout},
          {"alpa.random_uniform", emit_random_uniform}};
}

}  // namespace alpa::stablehlo
