// src/compile/plan_operator.cc — finds operators of a plan, and lists their layouts
#include "plan_operator.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "alpa/base/error.h"
#include "alpa/compile/parallel_method.h"
#include "src/base/infinity.h"
#include "src/ir/op_def.h"
#include "src/report/plan_summary.h"
#include "src/search/space/search_space.h"

namespace alpa {
namespace {

constexpr std::size_t kMostNames = 5;

/// "1:%12" in parts.
struct OperatorName {
  std::optional<int> stage;
  std::string rest;
  std::optional<int> value;  ///< where the rest is "%12"
};

std::optional<int> number_of(std::string_view digits) {
  int number = -1;
  const char* const end = digits.data() + digits.size();
  const auto [next, error] = std::from_chars(digits.data(), end, number);
  return error == std::errc() && next == end && number >= 0 ? std::optional(number) : std::nullopt;
}

OperatorName parts_of(const std::string& name) {
  OperatorName parts{{}, name, {}};
  const std::size_t colon = name.find(':');
  if (colon != std::string::npos) parts.stage = number_of(std::string_view(name).substr(0, colon));
  if (parts.stage) parts.rest = name.substr(colon + 1);
  if (parts.rest.starts_with('%')) parts.value = number_of(std::string_view(parts.rest).substr(1));
  return parts;
}

std::vector<PlanOperator> operators_called(const Plan& plan, const OperatorName& name) {
  std::vector<PlanOperator> found;
  for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s) {
    const Graph& graph = plan.stages[s].graph;
    if (name.stage && *name.stage != s) continue;
    if (name.value && *name.value < static_cast<int>(graph.values.size()))
      found.push_back({s, graph.values[*name.value].producer});
    for (int n = 0; !name.value && n < static_cast<int>(graph.nodes.size()); ++n)
      if (graph.nodes[n].name == name.rest) found.push_back({s, n});
  }
  return found;
}

/// "%12", or "1:%12" where there are several stages.
std::string reference_to(const Plan& plan, const PlanOperator& op) {
  const int value = plan.stages[op.stage].graph.nodes[op.node].results[0];
  return plan.stages.size() == 1 ? fmt::format("%{}", value)
                                 : fmt::format("{}:%{}", op.stage, value);
}

/// Names of operators that contain `text`; all names if none does.
std::vector<std::string> names_like(const Plan& plan, const std::string& text) {
  std::vector<std::string> all, like;
  for (const StagePlan& stage : plan.stages)
    for (const Node& node : stage.graph.nodes) {
      all.push_back(node.name);
      if (node.name.find(text) != std::string::npos) like.push_back(node.name);
    }
  return like.empty() ? all : like;
}

/// Specs of the first result among all strategies that the planner has on a mesh, in order.
std::vector<ShardingSpec> possible_specs(const Plan& plan, const PlanOperator& op,
                                         const DeviceMesh& mesh, const cost::CostModel& model) {
  intra_op::PlanningCache cache;
  intra_op::AutoShardOptions options;
  options.part.whole_boundary_inputs = plan.method == name_of(MethodKind::pipeline);
  const intra_op::SearchSpace space =
      search_space(plan.stages[op.stage].graph, options, cache.of(mesh, model));
  const intra_op::NodeStrategies& choices = space.of(op.node);
  const intra_op::TypeLayouts& layouts = space.layouts.of(choices.result_types[0]);
  std::vector<ShardingSpec> specs;
  for (const int spec : choices.result_specs[0])
    if (std::ranges::find(specs, layouts.specs[spec]) == specs.end())
      specs.push_back(layouts.specs[spec]);
  return specs;
}

const Node& node_of(const Plan& plan, const PlanOperator& op) {
  return plan.stages[op.stage].graph.nodes[op.node];
}

}  // namespace

PlanOperator find_operator(const Plan& plan, const std::string& name) {
  const OperatorName parts = parts_of(name);
  const std::vector<PlanOperator> found = operators_called(plan, parts);
  if (found.empty())
    fail("the plan has no operator \"{}\"; among its operators are {}", excerpt(name),
         quoted_names(names_like(plan, parts.rest), kMostNames));
  std::vector<std::string> references;
  for (const PlanOperator& op : found) references.push_back(reference_to(plan, op));
  if (references.size() > kMostNames) references.resize(kMostNames);
  require(found.size() == 1, "{} operators are called \"{}\"; name one by its value: {}{}",
          found.size(), excerpt(name), fmt::join(references, ", "),
          found.size() > kMostNames ? ", …" : "");
  return found.front();
}

std::string operator_text(const Plan& plan, const PlanOperator& op) {
  const Node& node = node_of(plan, op);
  return fmt::format("{} \"{}\"", node.op->name, excerpt(node.name));
}

const ShardingSpec& result_spec(const Plan& plan, const PlanOperator& op) {
  return plan.stages[op.stage].plan.specs[node_of(plan, op).results[0]];
}

std::vector<SpecChoice> spec_choices(const Plan& plan, const PlanOperator& op,
                                     const Cluster& cluster) {
  const StagePlan& stage = plan.stages[op.stage];
  const cost::CostModel model = cost::CostModel::of(cluster);
  const intra_op::PricedPlan priced(stage.plan, stage.graph, model);
  const Rule& rule = priced.facts.classes.of(op.node).rule;
  const std::vector<intra_op::Alternative> others = intra_op::alternatives(op.node, priced);
  std::vector<SpecChoice> choices;
  for (const ShardingSpec& spec : possible_specs(plan, op, stage.plan.mesh, model)) {
    choices.push_back({spec, spec == result_spec(plan, op) ? 0 : kInfinity});
    for (const intra_op::Alternative& other : others)
      if (choices.back().extra_seconds > other.extra_seconds &&
          intra_op::result_spec(rule, other.strategy, stage.plan.mesh) == spec)
        choices.back().extra_seconds = other.extra_seconds;
  }
  std::ranges::stable_sort(choices, {}, &SpecChoice::extra_seconds);
  return choices;
}

void require_possible(const Plan& plan, const PlanOperator& op, const ShardingSpec& spec,
                      const std::vector<DeviceMesh>& meshes, const cost::CostModel& model) {
  std::string possible;
  for (const DeviceMesh& mesh : meshes) {
    const std::vector<ShardingSpec> specs = possible_specs(plan, op, mesh, model);
    if (std::ranges::find(specs, spec) != specs.end()) return;
    possible += fmt::format("{}on mesh {} as {}", possible.empty() ? "" : ", or ", shape_text(mesh),
                            fmt::join(specs, ", "));
  }
  fail("{} cannot leave {} as {}; it can {}", operator_text(plan, op),
       to_string(plan.stages[op.stage].graph.type(node_of(plan, op).results[0])), to_string(spec),
       possible);
}

}  // namespace alpa
