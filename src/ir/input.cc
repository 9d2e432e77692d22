// src/ir/input.cc — the operator of graph inputs: a tensor of attributes "dtype" and "shape"
#include "src/ir/input.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/ir/op_def.h"
#include "src/ir/rule.h"

namespace alpa {
namespace {

/// Checks the attributes that define a state's initial content.
void check_initializer(const Attributes& attributes) {
  const std::string& init = attributes.string("init");
  require(init == "constant" || init == "normal" || init == "uniform",
          "input: init is \"{}\"; it is constant, normal or uniform", excerpt(init));
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

bool is_scalar_input(const Graph& graph, int value) {
  const Input* input = find_input(graph, value);
  return input && input->kind == InputKind::scalar;
}

std::vector<std::string> input_names(const Graph& graph, InputKind kind) {
  std::vector<std::string> names;
  for (const Input& input : graph.inputs)
    if (input.kind == kind && std::find(names.begin(), names.end(), input.name) == names.end())
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
  switch (kind) {
    case InputKind::batch: return "batch";
    case InputKind::state: return "state";
    case InputKind::accumulator: return "accumulator";
    case InputKind::shared: return "shared";
    case InputKind::scalar: return "scalar";
    case InputKind::boundary: return "boundary";
  }
  bug("unknown input kind {}", static_cast<int>(kind));
}

std::string_view name_of(Region region) {
  switch (region) {
    case Region::forward: return "forward";
    case Region::backward: return "backward";
    case Region::apply: return "apply";
  }
  bug("unknown region {}", static_cast<int>(region));
}

}  // namespace alpa
