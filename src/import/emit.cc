// src/import/emit.cc — a flat function, node by node
#include "src/import/emit.h"

#include <algorithm>
#include <unordered_map>

#include "alpa/base/text.h"
#include "alpa/ops/ops.h"

namespace alpa::stablehlo {
namespace {

const std::unordered_map<std::string_view, Row>& kinds() {
  static const auto all = [] {
    std::unordered_map<std::string_view, Row> table;
    for (const auto& rows : {elementwise_rows(), shape_rows(), product_rows(), lookup_rows(),
                             window_rows(), pattern_rows()})
      for (const Row& row : rows) table.emplace(row.kind, row);
    return table;
  }();
  return all;
}

/// What to write instead of kinds that are not supported.
std::string_view way_round(std::string_view kind) {
  if (kind == "stablehlo.custom_call") return "; use jnp functions instead of the call";
  if (kind.starts_with("stablehlo.rng")) return "; jax.random's default generator, threefry, is";
  if (kind == "stablehlo.case" || kind == "stablehlo.if") return "; use jnp.where";
  if (kind == "stablehlo.sort") return "; import a function without sorting";
  return "";
}

constexpr double kMostUnsigned = 4294967295.0;

/// ui64 has 32 bits here. So it may only count elements, as jax's random numbers do.
void check_counts(const FlatFunction& function, const FlatOperation& operation) {
  static constexpr std::string_view kCounting[] = {"stablehlo.iota",
                                                   "stablehlo.add",
                                                   "stablehlo.multiply",
                                                   "stablehlo.shift_right_logical",
                                                   "stablehlo.convert",
                                                   "stablehlo.reshape",
                                                   "stablehlo.broadcast_in_dim"};
  const auto is_wide = [&](int value) {
    return function.values[static_cast<std::size_t>(value)].type.element == "ui64";
  };
  if (!std::ranges::any_of(operation.operands, is_wide) &&
      !std::ranges::any_of(operation.results, is_wide))
    return;
  const bool made = operation.kind == "stablehlo.convert" && is_wide(operation.results[0]);
  if (made || std::ranges::find(kCounting, operation.kind) == std::end(kCounting))
    fail_at(operation.source->place,
            "\"{}\" of ui64 is not supported, only what counts elements for random numbers; use "
            "uint32",
            excerpt(operation.kind));
}

/// Elements of a known value; ui32 as the i32 of these bits.
Value constant_of(Recorder& graph, const FlatValue& value) {
  const TensorType type = tensor_type(value.type, value.place);
  double element = *value.known;
  if (value.type.is_unsigned()) {
    if (!(element >= 0 && element <= kMostUnsigned))
      fail_at(value.place, "{} is not below 2^32; ui64 counts elements only", element);
    element = static_cast<std::int32_t>(static_cast<std::uint32_t>(element));
  }
  return constant(graph, element, type.dtype, type.shape);
}

struct Recording {
  Recorder& graph;
  const FlatFunction& function;
  Values values;
};

Value value_of(Recording& r, int id) {
  Value& value = r.values[static_cast<std::size_t>(id)];
  const FlatValue& flat = r.function.values[static_cast<std::size_t>(id)];
  if (!value && flat.known) return constant_of(r.graph, flat);
  return value;
}

void check_results(const Call& call, const Values& results) {
  if (results.size() != call.op.results.size())
    call.fail("{} results, not {}", results.size(), call.op.results.size());
  for (std::size_t i = 0; i < results.size(); ++i)
    if (results[i].type() != call.result_type(i))
      call.fail("the result is {}, but the text says {}", to_string(results[i].type()),
                to_string(call.result_type(i)));
}

/// While one lives, names of nodes begin with the operation's line in the text.
class LineScope {
 public:
  LineScope(Recorder& graph, TextPlace place) : graph_(graph) {
    graph.push_scope(fmt::format("line {}", place.line));
  }
  ~LineScope() { graph_.pop_scope(); }
  LineScope(const LineScope&) = delete;
  LineScope& operator=(const LineScope&) = delete;

 private:
  Recorder& graph_;
};

void record_operation(Recording& r, const FlatOperation& operation) {
  const auto found = kinds().find(operation.kind);
  if (found == kinds().end())
    fail_at(operation.source->place, "\"{}\" is not supported{}", excerpt(operation.kind),
            way_round(operation.kind));
  check_counts(r.function, operation);
  const LineScope line(r.graph, operation.source->place);
  Call call{r.graph, r.function, operation, {}};
  for (int operand : operation.operands) call.in.push_back(value_of(r, operand));
  const Row& row = found->second;
  if (row.operands > 0 && call.in.size() != row.operands)
    call.fail("{} operands, not {}", call.in.size(), row.operands);
  Values results;
  try {
    results = row.emit(call);
    check_results(call, results);
  } catch (const Error& error) {
    const std::string_view what = error.what();
    if (what.starts_with("StableHLO")) throw;
    call.fail("{}", what);
  }
  for (std::size_t i = 0; i < results.size(); ++i)
    r.values[static_cast<std::size_t>(operation.results[i])] = results[i];
}

}  // namespace

Values record(Recorder& graph, const FlatFunction& function, const Values& arguments) {
  Recording r{graph, function, Values(function.values.size())};
  for (std::size_t i = 0; i < arguments.size(); ++i)
    r.values[static_cast<std::size_t>(function.arguments[i])] = arguments[i];
  int layer = -1;
  for (const FlatOperation& operation : function.operations) {
    if (operation.layer != layer && operation.layer > 0) graph.end_layer();
    if (operation.layer >= 0) layer = operation.layer;
    const RegionScope in(graph, operation.region.value_or(graph.region()));
    record_operation(r, operation);
  }
  Values results;
  for (int result : function.results) results.push_back(value_of(r, result));
  return results;
}

}  // namespace alpa::stablehlo
