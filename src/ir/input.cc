// src/ir/input.cc — the operator of graph inputs: a tensor of attributes "dtype" and "shape"
#include "src/ir/input.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/base/name_table.h"
#include "src/ir/op_def.h"
#include "src/ir/rule.h"

namespace alpa {
namespace {

constexpr const char* kCopied = "copy";
constexpr const char* kUnset = "unset";

/// Checks the attributes that define a state's initial content.
void check_initializer(const Attributes& attributes) {
  const std::string& init = attributes.string("init");
  require(init == "constant" || init == "normal" || init == "uniform" || init == kUnset ||
              init == kCopied,
          "input: init is \"{}\"; it is constant, normal, uniform, unset or copy", excerpt(init));
  attributes.real("a"), attributes.real("b");
}

/// Every dimension is a factor of its own. An accumulator starts at zero, which is a partial sum of
/// nothing; what crosses a boundary may be a partial sum.
Rule input_rule(const OpQuery& query) {
  Rule rule;
  DimFactors dims;
  for (std::int64_t extent : query.attributes.integers("shape")) {
    require(extent >= 1, "input: extents must be at least 1, not {}", extent);
    dims.push_back({static_cast<int>(rule.factors.size())});
    rule.factors.push_back({extent});
  }
  rule.results.push_back(std::move(dims));
  const std::string& kind = query.attributes.string("kind");
  if (kind == name_of(InputKind::accumulator) || kind == name_of(InputKind::boundary))
    rule.linear = {0};
  if (kind == name_of(InputKind::state)) check_initializer(query.attributes);
  return rule;
}

}  // namespace

const OpDef ops::input = {
    .name = "input",
    .rule = input_rule,
    .result_dtypes =
        [](const OpQuery& query) { return std::vector<DType>{query.attributes.dtype("dtype")}; },
};

const Input* find_input(const Graph& graph, InputKind kind, const std::string& name) {
  for (const Input& input : graph.inputs)
    if (input.kind == kind && input.name == name) return &input;
  return nullptr;
}

const Input* find_state(const Graph& graph, const std::string& name) {
  const Input* state = find_input(graph, InputKind::state, name);
  return state && !is_copy(graph, *state) ? state : nullptr;
}

std::int64_t bytes_of(const Graph& graph, InputKind kind) {
  std::int64_t bytes = 0;
  for (const Input& input : graph.inputs)
    if (input.kind == kind) bytes += graph.type(input.value).bytes();
  return bytes;
}

bool is_copy(const Graph& graph, const Input& input) {
  return input.kind == InputKind::state && !input.of.empty() &&
         graph.producer(input.value).attributes.string("init") == kCopied;
}

bool is_unset(const Graph& graph, const Input& input) {
  return input.kind == InputKind::state &&
         graph.producer(input.value).attributes.string("init") == kUnset;
}

StateCopies copies_by_state(const Graph& graph) {
  StateCopies copies;
  for (const Input& input : graph.inputs)
    if (is_copy(graph, input)) copies.emplace(input.of, &input);
  return copies;
}

std::vector<bool> held_like_optimizer_state(const Graph& graph) {
  const StateCopies copies = copies_by_state(graph);
  std::vector<bool> held(graph.values.size(), false);
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::state)
      held[input.value] = input.of.empty() ? copies.contains(input.name) : !is_copy(graph, input);
  return held;
}

bool is_scalar_input(const Graph& graph, int value) {
  const Input* input = find_input(graph, value);
  return input && input->kind == InputKind::scalar;
}

std::vector<std::string> input_names(const Graph& graph, InputKind kind) {
  std::vector<std::string> names;
  for (const Input& input : graph.inputs)
    if (input.kind == kind && !is_copy(graph, input) &&
        std::find(names.begin(), names.end(), input.name) == names.end())
      names.push_back(input.name);
  return names;
}

StateRole role_of(const Input& input) {
  if (input.kind != InputKind::state) return StateRole::none;
  if (input.of.empty()) return StateRole::parameter;
  const bool of_layer = input.name != input.of && !input.name.starts_with(input.of + ".");
  return of_layer ? StateRole::layer_state : StateRole::optimizer_state;
}

std::string_view name_of(StateRole role) {
  static constexpr std::string_view kNames[] = {"", "parameter", "layer state", "optimizer state"};
  return kNames[static_cast<int>(role)];
}

std::string_view name_of(InputKind kind) {
  constexpr std::string_view kNames[] = {"batch",  "state",  "accumulator",
                                         "shared", "scalar", "boundary"};
  return name_in(kNames, kind, "input kind");
}

std::string_view name_of(Region region) {
  constexpr std::string_view kNames[] = {"forward", "backward", "apply"};
  return name_in(kNames, region, "region");
}

}  // namespace alpa
