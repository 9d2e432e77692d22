// bindings/c/describe.cc — functions and plans as JSON
#include "bindings/c/describe.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "src/ir/op_def.h"

namespace bindings {

using namespace alpa;
using Json = nlohmann::ordered_json;

namespace {

constexpr std::string_view kLine = "line ";  ///< how names of imported nodes begin

Json tensor_json(const std::string& name, const TensorType& type) {
  return {{"name", name}, {"dtype", name_of(type.dtype)}, {"shape", type.shape}};
}

Json tensors_json(const std::vector<ImportedTensor>& tensors) {
  Json list = Json::array();
  for (const ImportedTensor& tensor : tensors)
    list.push_back(tensor_json(tensor.name, tensor.type));
  return list;
}

/// For each dimension the axes that split it, major first.
Json spec_json(const ShardingSpec& spec, int rank, const DeviceMesh& mesh) {
  Json dims = Json::array();
  for (int dim = 0; dim < rank; ++dim) {
    Json axes = Json::array();
    for (int axis : spec.axes_of(dim))
      if (mesh.size(axis) > 1) axes.push_back(mesh.axes()[static_cast<std::size_t>(axis)].name);
    dims.push_back(std::move(axes));
  }
  return dims;
}

/// The input of a graph that is a tensor of this name; nullptr: none is.
const Input* tensor_input(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find_if(graph.inputs, [&](const Input& input) {
    return input.name == name &&
           (input.kind == InputKind::state || input.kind == InputKind::batch ||
            input.kind == InputKind::shared);
  });
  return found == graph.inputs.end() ? nullptr : &*found;
}

/// The line of the text that a node was read from; none of nodes that alpa added.
std::optional<int> line_of(const Node& node) {
  if (!node.name.starts_with(kLine) || node.name.find(".grad/") != std::string::npos) return {};
  int line = 0;
  const char* begin = node.name.data() + kLine.size();
  if (std::from_chars(begin, node.name.data() + node.name.size(), line).ec != std::errc())
    return {};
  return line;
}

/// Specs in the plan of a step on one mesh.
struct Specs {
  explicit Specs(const StagePlan& stage) : graph(stage.graph), plan(stage.plan) {}

  Json of(int value) const {
    return spec_json(complete(value), graph.type(value).rank(), plan.mesh);
  }
  Json reads_of_input(const std::string& name) const {
    const Input* input = tensor_input(graph, name);
    return input ? reads(input->value) : Json::array();
  }
  /// Whole on every device where the step does not read it.
  Json of_input(const std::string& name, const TensorType& type) const {
    const Input* input = tensor_input(graph, name);
    return input ? of(input->value) : spec_json({}, type.rank(), plan.mesh);
  }
  /// The value's spec; of partial sums, that in which they are read first.
  ShardingSpec complete(int value) const {
    const ShardingSpec& made = plan.specs[static_cast<std::size_t>(value)];
    if (!made.is_partial()) return made;
    for (const PlannedReshard& reshard : plan.reshards)
      if (reshard.value == value && !reshard.path.steps.empty())
        return reshard.path.steps.back().to;
    return made;
  }
  /// Where a value is read in another spec than its own.
  Json reads(int value) const {
    Json list = Json::array();
    for (const PlannedReshard& reshard : plan.reshards) {
      if (reshard.value != value || reshard.path.steps.empty()) continue;
      const ShardingSpec& to = reshard.path.steps.back().to;
      if (to.is_partial() || to == complete(value)) continue;
      for (const UseId use : reshard.uses)
        if (const std::optional<int> line = line_of(use))
          list.push_back(
              {{"line", *line}, {"spec", spec_json(to, graph.type(value).rank(), plan.mesh)}});
    }
    return list;
  }
  std::optional<int> line_of(UseId use) const {
    if (use.kind != UseKind::node) return {};
    return bindings::line_of(graph.nodes[static_cast<std::size_t>(use.index)]);
  }

  const Graph& graph;
  const ShardingPlan& plan;
};

bool is_state(const Graph& graph, const std::string& name) {
  const Input* input = tensor_input(graph, name);
  return input && input->kind == InputKind::state;
}

Json arguments_json(const Graph& graph, const Specs* specs, const Imported& function) {
  Json list = Json::array();
  for (const ImportedTensor& argument : function.arguments) {
    list.push_back(tensor_json(argument.name, argument.type));
    list.back()["role"] = is_state(graph, argument.name) ? "state" : "batch";
    if (!specs) continue;
    list.back()["spec"] = specs->of_input(argument.name, argument.type);
    list.back()["reads"] = specs->reads_of_input(argument.name);
  }
  return list;
}

/// Results that are the new content of state are laid out as it is.
Json results_json(const Graph& graph, const Specs* specs, const Imported& function) {
  Json list = Json::array();
  for (std::size_t i = 0; i < function.results.size(); ++i) {
    const ImportedTensor& result = function.results[i];
    list.push_back(tensor_json(result.name, result.type));
    if (!specs) continue;
    const auto output = std::ranges::find(specs->graph.outputs, result.name, &Output::name);
    const bool new_state = !function.is_loss() && i < function.arguments.size() &&
                           is_state(graph, function.arguments[i].name);
    list.back()["spec"] = new_state ? specs->of_input(function.arguments[i].name, result.type)
                          : output != specs->graph.outputs.end()
                              ? specs->of(output->value)
                              : spec_json({}, result.type.rank(), {});
  }
  return list;
}

Json state_json(const Graph& graph, const Specs* specs) {
  Json state = Json::array();
  for (const Input& input : graph.inputs) {
    if (input.kind != InputKind::state) continue;
    state.push_back(tensor_json(input.name, graph.type(input.value)));
    if (specs) state.back()["spec"] = specs->of_input(input.name, graph.type(input.value));
  }
  return state;
}

/// Values of nodes that were read from the text. Partial sums that the next node takes as they are
/// have no spec that other frameworks know.
Json constraints_json(const Specs& specs) {
  Json list = Json::array();
  for (const Node& node : specs.graph.nodes) {
    const std::optional<int> line = line_of(node);
    if (!line || node.again) continue;
    const int value = node.results.front();
    const TensorType& type = specs.graph.type(value);
    if (type.rank() == 0 || specs.complete(value).is_partial()) continue;
    list.push_back({{"line", *line},
                    {"operation", node.op->name},
                    {"product", node.op->work == Work::heavy},
                    {"dtype", name_of(type.dtype)},
                    {"shape", type.shape},
                    {"spec", specs.of(value)},
                    {"reads", specs.reads(value)}});
  }
  return list;
}

Json traffic_json(const CompiledStep& step) {
  Json kinds = Json::object();
  for (const auto& [kind, traffic] : step.traffic())
    kinds[kind] = {{"count", traffic.count}, {"bytes", traffic.bytes}};
  return kinds;
}

Json mesh_json(const DeviceMesh& mesh) {
  Json shape = Json::array(), axes = Json::array();
  for (const MeshAxis& axis : mesh.axes()) shape.push_back(axis.size), axes.push_back(axis.name);
  return {{"shape", shape}, {"axes", axes}};
}

}  // namespace

Json function_json(const Imported& function) {
  Json recognised = Json::object();
  for (const Recognised& found : function.recognised) recognised[found.pattern] = found.times;
  return {{"is_loss", function.is_loss()},
          {"arguments", tensors_json(function.arguments)},
          {"results", tensors_json(function.results)},
          {"recognised", recognised}};
}

Json plan_json(const CompiledStep& step, const Imported& function) {
  const Plan& plan = step.plan;
  const bool bounded = has_bound(plan);
  Json json = {{"method", plan.method},
               {"seconds", plan.cost.objective_seconds},
               {"lower_bound_seconds", bounded ? Json(plan.cost.lower_bound_seconds) : Json()},
               {"gap", bounded ? Json(plan.cost.gap()) : Json()},
               {"proof", proof_text(plan)},
               {"bytes_per_device", step.memory_bytes},
               {"stages", plan.stages.size()},
               {"meshes", meshes_text(plan)},
               {"mesh", Json()},
               {"traffic", traffic_json(step)}};
  std::optional<Specs> specs;
  if (plan.stages.size() == 1) specs.emplace(plan.stages.front());
  const Specs* of = specs ? &*specs : nullptr;
  json["arguments"] = arguments_json(step.graph, of, function);
  json["results"] = results_json(step.graph, of, function);
  json["state"] = state_json(step.graph, of);
  if (specs) {
    json["mesh"] = mesh_json(specs->plan.mesh);
    json["constraints"] = constraints_json(*specs);
  }
  return json;
}

}  // namespace bindings
